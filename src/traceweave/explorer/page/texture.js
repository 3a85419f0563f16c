// How busy lanes are, block by block, as a picture: one strip per lane and one per rank, a column per block. It is painted once
// when blocks arrive, and stretched over its stretch of time from then on.
import { rgba } from "./colours.js";

const TALL = 16;

export class Texture {
  constructor(frame, run) {
    this.first = frame.first;
    this.columns = Math.ceil(frame.until_ns / frame.block_ns) - this.first + 1;
    this.block = frame.block_ns;
    this.lanes = new Map();
    this.ranks = new Map();
    this.frame = frame;
    this.run = run;
    this.shares();
  }

  // Of every lane and rank the share of each column that is compute, communication and copies.
  shares() {
    const { frame, run } = this;
    for (let i = 0; i < frame.block_lane.length; i += 1) {
      const lane = run.lanes[frame.block_lane[i]];
      const at = frame.block_category[i] * this.columns + frame.block_at[i];
      this.strip(this.lanes, lane.lane)[at] += frame.block_busy[i];
      this.strip(this.ranks, lane.rank)[at] += frame.block_busy[i];
    }
  }

  strip(strips, key) {
    if (!strips.has(key)) strips.set(key, new Float32Array(3 * this.columns));
    return strips.get(key);
  }

  // Compute from below, what it does not cover of communication from above, copies between; the rest is idle.
  paint(colours) {
    const strips = [...this.lanes.values(), ...this.ranks.values()];
    this.place = new Map([...this.lanes.keys()].map((lane, i) => [`lane ${lane}`, i]));
    [...this.ranks.keys()].forEach((rank, i) => this.place.set(`rank ${rank}`, this.lanes.size + i));
    this.canvas = document.createElement("canvas");
    [this.canvas.width, this.canvas.height] = [this.columns, Math.max(strips.length * TALL, 1)];
    const pen = this.canvas.getContext("2d");
    const image = pen.createImageData(this.columns, this.canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const [compute, communication, memory] = colours.categories.map((one) => rgba(one));
    strips.forEach((strip, s) => {
      for (let x = 0; x < this.columns; x += 1) {
        const bottom = tall(strip[x]);
        const top = Math.min(tall(strip[this.columns + x]), TALL - bottom);
        const middle = Math.min(tall(strip[2 * this.columns + x]), TALL - bottom - top);
        let at = s * TALL * this.columns + x;
        const fill = (many, colour, skip = false) => {
          for (let i = 0; i < many; i += 1, at += this.columns) if (!skip) pixels[at] = colour;
        };
        fill(top, communication);
        fill(TALL - top - middle - bottom, 0, true);
        fill(middle, memory);
        fill(bottom, compute);
      }
    });
    pen.putImageData(image, 0, 0);
    this.painted = colours.page;
  }

  draw(pen, colours, key, view, width, top, height) {
    if (this.painted !== colours.page) this.paint(colours);
    const place = this.place.get(key);
    if (place === undefined) return;
    const scale = width / view.length;
    const x = (this.first * this.block - view.from) * scale;
    pen.drawImage(this.canvas, 0, place * TALL, this.columns, TALL, x, top, this.columns * this.block * scale, height);
  }

  // What a column of a lane or rank says: its stretch and shares.
  at(strips, key, ns) {
    const x = Math.floor(ns / this.block) - this.first;
    const strip = strips.get(key);
    if (!strip || x < 0 || x >= this.columns) return null;
    return { from: (this.first + x) * this.block, length: this.block, shares: [0, 1, 2].map((c) => strip[c * this.columns + x]) };
  }
}

const tall = (share) => (share > 0 ? Math.max(Math.round(Math.min(share, 1) * TALL), share > 0.005 ? 1 : 0) : 0);
