// What of the tables a reader can see at the width that the window has.
() => {
  const root = document.documentElement;
  const cut = [...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1);
  const shown = (one) => {
    const [box, first] = [one, one.querySelector("tbody td")].map((element) => getComputedStyle(element));
    return box.overflowX === "auto" && box.backgroundImage !== "none" && first.position === "sticky";
  };
  const id = (one) => one.querySelector("table").id;
  return {
    overflow: root.scrollWidth - root.clientWidth,
    cut: cut.map(id),
    lost: cut.filter((one) => !shown(one)).map(id),
    labels: [...document.querySelectorAll("#table-fixes tbody td")].map((cell) =>
      getComputedStyle(cell, "::before").content.replaceAll('"', "")),
  };
}
