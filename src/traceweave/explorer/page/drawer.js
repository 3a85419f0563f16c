// The panel below the lanes: one pane at a time, chosen by tabs.
import { button, element } from "./elements.js";

export class Drawer {
  constructor(place, panes, resized) {
    Object.assign(this, { place, resized, panes: new Map() });
    this.tabs = element("div", { role: "tablist", "aria-label": "What is shown below" });
    place.append(element("div", { class: "bar" }, this.tabs, button("✕", () => this.close(), { "aria-label": "Close the panel", class: "close" })));
    for (const [name, label] of Object.entries(panes)) this.add(name, label);
  }

  add(name, label) {
    const pane = element("div", { role: "tabpanel", class: `pane ${name}`, id: `pane-${name}`, "aria-labelledby": `tab-${name}`, tabindex: "0" });
    const tab = button(label, () => this.show(name), { role: "tab", id: `tab-${name}`, "aria-controls": `pane-${name}` });
    pane.hidden = true;
    this.tabs.append(tab);
    this.place.append(pane);
    this.panes.set(name, { pane, tab });
  }

  pane(name) {
    return this.panes.get(name).pane;
  }

  get open() {
    return this.place.hidden ? null : [...this.panes].find(([, { pane }]) => !pane.hidden)?.[0];
  }

  show(name) {
    for (const [key, { pane, tab }] of this.panes) {
      pane.hidden = key !== name;
      tab.setAttribute("aria-selected", String(key === name));
    }
    this.place.hidden = false;
    this.resized();
  }

  close() {
    this.place.hidden = true;
    this.resized();
  }
}
