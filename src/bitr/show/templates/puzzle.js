"use strict";
// The 3-D view of each puzzle of a page, drawn on a plain canvas, the farthest points first.
for (const root of document.querySelectorAll(".puzzle")) {
const $ = (name) => root.querySelector("." + name), all = (selector) => root.querySelectorAll(selector);
const canvas = $("canvas"), context = canvas.getContext("2d");
const data = JSON.parse($("scene").textContent);
const FOV = 0.5, EDGE_ON = 0.4, HAZE = 0.4; // radians; brightness of a surface seen edge-on; how far the distance fades
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const limit = (value, low, high) => Math.min(Math.max(value, low), high);
const times = (a, b) => a.map((_, i) => [0, 1, 2].reduce((sum, k) => sum + a[i - (i % 3) + k] * b[3 * k + (i % 3)], 0));
const apply = (a, v) => [0, 3, 6].map((i) => a[i] * v[0] + a[i + 1] * v[1] + a[i + 2] * v[2]);

const pieces = data.pieces.map((piece) => ({
  ...piece, points: new Float32Array(decode(piece.points)), normals: new Int8Array(decode(piece.normals)), shown: true,
}));
const camera = { turn: data.view.slice(), zoom: 1, pan: [0, 0] };
let apart = 0;

function place(piece) { return piece.place.map((value, i) => value + apart * piece.out[i]); }

function ball() { // one that holds all pieces that are shown
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (const piece of pieces.filter((one) => one.shown)) {
    const at = place(piece);
    for (let i = 0; i < piece.points.length; i++) {
      const value = piece.points[i] + at[i % 3];
      if (value < low[i % 3]) low[i % 3] = value;
      if (value > high[i % 3]) high[i % 3] = value;
    }
  }
  if (low[0] > high[0]) return { center: [0, 0, 0], radius: 1 };
  return { center: low.map((value, i) => (value + high[i]) / 2), radius: Math.hypot(...low.map((v, i) => high[i] - v)) / 2 || 1 };
}

let fitted = ball(), waiting = false;
function paint() {
  const ratio = limit(window.devicePixelRatio || 1, 1, 2);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((value) => Math.max(1, Math.round(value * ratio)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const back = getComputedStyle(document.documentElement).getPropertyValue("--canvas").trim() || "#ffffff";
  const behind = [1, 3, 5].map((i) => parseInt(back.slice(i, i + 2), 16));
  context.fillStyle = back;
  context.fillRect(0, 0, width, height);
  const { center, radius } = fitted, focal = 1 / Math.tan(FOV / 2);
  const distance = (1.05 * radius) / Math.sin(FOV / 2) / camera.zoom, scale = (focal * Math.min(width, height)) / 2;
  const dots = [];
  for (const piece of pieces.filter((one) => one.shown)) {
    const at = apply(camera.turn, place(piece).map((value, i) => value - center[i]));
    for (let i = 0; i < piece.points.length; i += 3) {
      const p = apply(camera.turn, piece.points.subarray(i, i + 3)).map((value, k) => value + at[k]);
      const d = distance - p[2];
      if (d < distance / 50) continue;
      const n = apply(camera.turn, piece.normals.subarray(i, i + 3));
      const lit = EDGE_ON + (1 - EDGE_ON) * Math.abs(n[2]) / 127, haze = HAZE * limit((d - distance + radius) / (2 * radius), 0, 1);
      dots.push({
        d, x: width / 2 + (scale * (p[0] + camera.pan[0])) / d, y: height / 2 - (scale * (p[1] + camera.pan[1])) / d,
        size: limit((1.6 * piece.spacing * scale) / d, 1.5 * ratio, 14 * ratio),
        color: piece.color.map((value, k) => Math.round(value * lit + (behind[k] - value * lit) * haze)),
      });
    }
  }
  dots.sort((a, b) => b.d - a.d);
  for (const { x, y, size, color } of dots) {
    context.fillStyle = `rgb(${color.join()})`;
    if (size < 3 * ratio) context.fillRect(x - size / 2, y - size / 2, size, size); // too small to see that it is square
    else { context.beginPath(); context.arc(x, y, size / 2, 0, 2 * Math.PI); context.fill(); }
  }
}
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paint(); });
}

// ---- which pieces --------------------------------------------------------------------------------------------
function mark() {
  for (const button of all("[data-piece]")) button.setAttribute("aria-pressed", pieces[button.dataset.piece].shown);
}
function showOnly(numbers, pair) {
  pieces.forEach((piece, k) => { piece.shown = numbers === null || numbers.includes(k); });
  for (const one of all("[data-pair]")) one.setAttribute("aria-current", one.dataset.pair === pair);
  mark();
  reset();
}
for (const one of all("[data-pair]")) one.onclick = () => showOnly(one.dataset.pair.split(",").map(Number), one.dataset.pair);
for (const button of all("[data-piece]")) button.onclick = () => {
  const piece = pieces[button.dataset.piece];
  piece.shown = !piece.shown;
  mark();
  draw();
};
$("everything").onclick = () => showOnly(null, "");
$("apart").oninput = (event) => { apart = Number(event.target.value); fitted = ball(); draw(); };

// ---- turning, moving, zooming ----------------------------------------------------------------------------------
function turn(dx, dy) {
  const [a, b] = [0.008 * dx, 0.008 * dy], [ca, sa, cb, sb] = [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)];
  camera.turn = times([1, 0, 0, 0, cb, -sb, 0, sb, cb], times([ca, 0, sa, 0, 1, 0, -sa, 0, ca], camera.turn));
  draw();
}
function zoom(factor) { camera.zoom = limit(camera.zoom * factor, 0.2, 40); draw(); }
function move(dx, dy) {
  const unit = (2 * fitted.radius) / canvas.clientHeight / camera.zoom;
  camera.pan = [camera.pan[0] + dx * unit, camera.pan[1] - dy * unit];
  draw();
}
function reset() {
  Object.assign(camera, { turn: data.view.slice(), zoom: 1, pan: [0, 0] });
  fitted = ball();
  draw();
}
$("reset").onclick = reset;
const held = new Map(); // places of the fingers, or of the mouse
canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); held.set(event.pointerId, [event.clientX, event.clientY]); });
canvas.addEventListener("pointermove", (event) => {
  const last = held.get(event.pointerId), now = [event.clientX, event.clientY];
  if (!last) return;
  held.set(event.pointerId, now);
  const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
  if (!other) return (event.shiftKey || event.buttons & 6 ? move : turn)(now[0] - last[0], now[1] - last[1]);
  const apart = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]);
  zoom(apart(now) / Math.max(apart(last), 1));
  move((now[0] - last[0]) / 2, (now[1] - last[1]) / 2);
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => { held.delete(event.pointerId); });
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-0.0015 * event.deltaY)); }, { passive: false });
const arrows = { ArrowLeft: [-16, 0], ArrowRight: [16, 0], ArrowUp: [0, -16], ArrowDown: [0, 16] };
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in arrows) turn(...arrows[event.key]);
  else if ("+=".includes(event.key)) zoom(1.15);
  else if ("-_".includes(event.key)) zoom(1 / 1.15);
  else if (event.key === "0") reset();
  else return;
  event.preventDefault();
});

for (const button of all(".copy")) {
  const label = button.textContent;
  button.onclick = async () => {
    try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
    catch { button.textContent = "Could not copy"; }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(draw).observe(canvas);
draw();
}
