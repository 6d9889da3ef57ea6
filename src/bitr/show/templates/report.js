"use strict";
// The 3-D view of a report. A frame is a list of layers; a layer is a piece, a 3x3 turn (rows) and an offset that
// together take the piece's own coordinates to the camera's: right, up, towards the viewer.
(() => {
const $ = (id) => document.getElementById(id);
const canvas = $("canvas");
const FOV = 0.5, EDGE_ON = 0.4; // radians; brightness of a surface seen edge-on
const shown = { source: true, reference: true, keys: false };
let progress = location.hash === "#before" ? 0 : 1;

// ---- numbers -------------------------------------------------------------------------------------------------
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const mix = (a, b, t) => a.map((value, i) => value + (b[i] - value) * t);
const times = (a, b) => a.map((_, i) => [0, 1, 2].reduce((sum, k) => sum + a[i - (i % 3) + k] * b[3 * k + (i % 3)], 0));
const apply = (a, v) => [0, 3, 6].map((i) => a[i] * v[0] + a[i + 1] * v[1] + a[i + 2] * v[2]);
const limit = (value, low, high) => Math.min(Math.max(value, low), high);

function rotation([x, y, z], angle) { // Rodrigues, about a unit axis
  const c = Math.cos(angle), s = Math.sin(angle), d = 1 - c;
  return [c + x * x * d, x * y * d - z * s, x * z * d + y * s, y * x * d + z * s, c + y * y * d, y * z * d - x * s,
    z * x * d - y * s, z * y * d + x * s, c + z * z * d];
}

function piece(encoded) {
  const points = new Float32Array(decode(encoded.points));
  const keys = encoded.keypoints && new Float32Array(decode(encoded.keypoints));
  return {
    cloud: { points, normals: new Int8Array(decode(encoded.normals)), size: 1.6 * encoded.spacing },
    keys: keys && { points: keys, normals: new Int8Array(keys.length), size: 0 },
  };
}
// A page has one pair or several, each in an element of class "scene"; the first is shown, others when asked for.
const loaded = new Map();
let data, source, reference;
function load(id) {
  if (!loaded.has(id)) {
    const found = JSON.parse($(id).textContent);
    loaded.set(id, [found, piece(found.source), piece(found.reference)]);
  }
  [data, source, reference] = loaded.get(id);
}
const first = document.querySelector(".scene").id;
load(first);
const start = () => ({ turn: data.view.slice(), zoom: 1, pan: [0, 0] });
const camera = start();

function motion(t) { // turns about the source's own centre, which goes straight to its place
  const [w, ...v] = data.quaternion, sine = Math.hypot(...v);
  const axis = sine > 0 ? v.map((value) => value / sine) : [1, 0, 0];
  return { turn: rotation(axis, 2 * Math.atan2(sine, w) * t), offset: mix(data.before, data.after, t) };
}

// ---- colours, kept in the style sheet --------------------------------------------------------------------------
let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["canvas", "ring", "source", "moved", "reference", "source-key", "moved-key", "reference-key"]) {
    const hex = style.getPropertyValue("--" + name).trim();
    colors[name] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
  }
}

// ---- one frame -------------------------------------------------------------------------------------------------
function frame() {
  const t = progress, { width, height } = canvas, aspect = width / height, ratio = height / canvas.clientHeight;
  const focal = 1 / Math.tan(FOV / 2), narrow = Math.atan(Math.min(1, aspect) / focal);
  const center = mix(data.fit[0].center, data.fit[1].center, t);
  const [radius] = mix([data.fit[0].radius], [data.fit[1].radius], t);
  const distance = (1.05 * radius) / Math.sin(narrow) / camera.zoom;
  const lens = {
    focal: [focal / aspect, focal], pixels: (focal * height) / 2, near: Math.max(distance - 2 * radius, distance / 50),
    far: distance + 2 * radius, fog: [distance - radius, 2 * radius],
  };
  const layer = (shape, place, color, key) => ({
    shape, color, key, turn: times(camera.turn, place.turn),
    offset: apply(camera.turn, place.offset.map((value, i) => value - center[i]))
      .map((value, i) => value + [camera.pan[0], camera.pan[1], -distance][i]),
    size: shape.size, sizes: (key ? [11, 11] : [2, 26]).map((value) => value * ratio), // least and most, on the screen
  });
  const placed = { turn: [1, 0, 0, 0, 1, 0, 0, 0, 1], offset: [0, 0, 0] }, moving = motion(t), layers = [];
  for (const key of shown.keys ? [false, true] : [false]) {
    const end = key ? "-key" : "", part = key ? "keys" : "cloud";
    if (shown.reference && reference[part]) layers.push(layer(reference[part], placed, colors["reference" + end], key));
    if (shown.source && source[part])
      layers.push(layer(source[part], moving, mix(colors["source" + end], colors["moved" + end], t), key));
  }
  return { lens, layers, distance };
}

// ---- WebGL -----------------------------------------------------------------------------------------------------
const VERTEX = `
attribute vec3 position, normal;
uniform mat3 turn; uniform vec3 offset; uniform vec2 focal, depths, fog, sizes; uniform float size, pixels;
varying float lit, haze;
void main() {
  vec3 p = turn * position + offset, n = turn * normal;
  float d = -p.z;
  lit = 1. - length(n) + abs(dot(n, normalize(p)));
  haze = clamp((d - fog.x) / fog.y, 0., 1.);
  gl_PointSize = clamp(size * pixels / d, sizes.x, sizes.y);
  gl_Position = vec4(focal * p.xy, ((depths.y + depths.x) * d - 2. * depths.y * depths.x) / (depths.y - depths.x), d);
}`;
const FRAGMENT = `
precision mediump float;
uniform vec3 color, ring, back; uniform bool key;
varying float lit, haze;
void main() {
  float r = 2. * length(gl_PointCoord - .5);
  if (r > 1.) discard;
  vec3 surface = mix(color * mix(${EDGE_ON.toFixed(2)}, 1., lit), back, .4 * haze);
  gl_FragColor = vec4(key ? mix(color, ring, step(.74, r)) : surface, 1.);
}`;

function webgl() {
  const gl = canvas.getContext("webgl", { antialias: false, alpha: false });
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  ["position", "normal"].forEach((name, i) => { gl.bindAttribLocation(program, i, name); gl.enableVertexAttribArray(i); });
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  gl.useProgram(program);
  gl.enable(gl.DEPTH_TEST);
  const uniform = (name) => gl.getUniformLocation(program, name), buffers = new Map();
  const filled = (array) => {
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
    return buffer;
  };
  const buffersOf = (shape) => {
    if (!buffers.has(shape)) buffers.set(shape, [filled(shape.points), filled(shape.normals)]);
    return buffers.get(shape);
  };

  return ({ lens, layers }) => {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...colors.canvas, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniform2f(uniform("focal"), ...lens.focal);
    gl.uniform2f(uniform("depths"), lens.near, lens.far);
    gl.uniform2f(uniform("fog"), ...lens.fog);
    gl.uniform1f(uniform("pixels"), lens.pixels);
    gl.uniform3f(uniform("ring"), ...colors.ring);
    gl.uniform3f(uniform("back"), ...colors.canvas);
    let onTop = false;
    for (const { shape, turn, offset, color, size, sizes, key } of layers) {
      if (key && !onTop) gl.clear(gl.DEPTH_BUFFER_BIT); // key points lie inside the clouds, and are seen through them
      onTop = key;
      gl.uniformMatrix3fv(uniform("turn"), false, [0, 3, 6, 1, 4, 7, 2, 5, 8].map((i) => turn[i])); // by columns
      gl.uniform3f(uniform("offset"), ...offset);
      gl.uniform3f(uniform("color"), ...color);
      gl.uniform1f(uniform("size"), size);
      gl.uniform2f(uniform("sizes"), ...sizes);
      gl.uniform1i(uniform("key"), key);
      const [points, normals] = buffersOf(shape);
      gl.bindBuffer(gl.ARRAY_BUFFER, points);
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0);
      gl.bindBuffer(gl.ARRAY_BUFFER, normals);
      gl.vertexAttribPointer(1, 3, gl.BYTE, true, 0, 0);
      gl.drawArrays(gl.POINTS, 0, shape.points.length / 3);
    }
  };
}

// ---- the same on a plain canvas, where there is no WebGL: the farthest points first ----------------------------------
function plain() {
  const context = canvas.getContext("2d"), css = (c) => `rgb(${c.map((value) => Math.round(255 * value)).join()})`;
  return ({ lens, layers }) => {
    context.fillStyle = css(colors.canvas);
    context.fillRect(0, 0, canvas.width, canvas.height);
    const dots = [];
    for (const { shape, turn, offset, color, size, sizes, key } of layers)
      for (let i = 0; i < shape.points.length; i += 3) {
        const p = apply(turn, shape.points.subarray(i, i + 3)).map((value, k) => value + offset[k]), d = -p[2];
        if (d < lens.near) continue;
        const n = apply(turn, shape.normals.subarray(i, i + 3)).map((value) => value / 127);
        const lit = 1 - Math.hypot(...n) + Math.abs(n[0] * p[0] + n[1] * p[1] + n[2] * p[2]) / Math.hypot(...p);
        const haze = 0.4 * limit((d - lens.fog[0]) / lens.fog[1], 0, 1);
        dots.push({
          x: ((lens.focal[0] * p[0]) / d + 1) * canvas.width / 2, y: (1 - (lens.focal[1] * p[1]) / d) * canvas.height / 2,
          d, key, size: limit((size * lens.pixels) / d, ...sizes),
          color: key ? color : mix(color.map((value) => value * (EDGE_ON + (1 - EDGE_ON) * lit)), colors.canvas, haze),
        });
      }
    dots.sort((a, b) => a.key - b.key || b.d - a.d);
    const dot = (x, y, r) => { context.beginPath(); context.arc(x, y, r, 0, 2 * Math.PI); context.fill(); };
    for (const { x, y, size, color, key } of dots) {
      if (key) { context.fillStyle = css(colors.ring); dot(x, y, size / 2); }
      context.fillStyle = css(color);
      dot(x, y, (key ? 0.74 : 1) * size / 2);
    }
  };
}

let paint = webgl();
document.documentElement.dataset.renderer = paint ? "webgl" : "canvas";
paint ??= plain();
let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const ratio = limit(devicePixelRatio, 2, 3); // more pixels than the screen has smooth the edges of the dots
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((value) => Math.max(1, Math.round(value * ratio)));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    paint(frame());
  });
}

// ---- before and after ------------------------------------------------------------------------------------------------
let run = 0;
const still = matchMedia("(prefers-reduced-motion: reduce)");
function setProgress(value) {
  progress = value;
  $("progress").value = value;
  $("progress").setAttribute("aria-valuetext", value === 0 ? "before" : value === 1 ? "after" : Math.round(100 * value) + " %");
  $("to-before").setAttribute("aria-pressed", value === 0);
  $("to-after").setAttribute("aria-pressed", value === 1);
  $("source-name").textContent = value === 0 ? "source" : "source, moved";
  $("source-dot").className = "dot " + (value < 0.5 ? "source" : "moved");
  draw();
}
function glide(from, to) {
  const own = ++run, begin = performance.now(), lasts = 1600 * Math.abs(to - from);
  if (still.matches || !lasts) return setProgress(to);
  const step = (now) => {
    if (own !== run) return;
    const t = limit((now - begin) / lasts, 0, 1);
    setProgress(t === 1 ? to : from + (to - from) * t * t * (3 - 2 * t));
    if (t < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
$("play").onclick = () => glide(progress === 1 ? 0 : progress, 1);
$("to-before").onclick = () => glide(progress, 0);
$("to-after").onclick = () => glide(progress, 1);
$("progress").oninput = (event) => { run++; setProgress(Number(event.target.value)); };

// ---- turning, moving, zooming ----------------------------------------------------------------------------------------
function turn(dx, dy) {
  camera.turn = times(rotation([1, 0, 0], 0.008 * dy), times(rotation([0, 1, 0], 0.008 * dx), camera.turn));
  draw();
}
function move(dx, dy) {
  const unit = (2 * frame().distance * Math.tan(FOV / 2)) / canvas.clientHeight;
  camera.pan = [camera.pan[0] + dx * unit, camera.pan[1] - dy * unit];
  draw();
}
function zoom(factor) {
  camera.zoom = limit(camera.zoom * factor, 0.2, 40);
  draw();
}
const pointers = new Map();
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, event);
});
canvas.addEventListener("pointermove", (event) => {
  const last = pointers.get(event.pointerId);
  if (!last) return;
  pointers.set(event.pointerId, event);
  const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
  if (pointers.size === 2) {
    const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
    const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
    zoom(apart(event) / apart(last));
    move(dx / 2, dy / 2);
  } else if (event.shiftKey || event.buttons & 6) move(dx, dy);
  else turn(dx, dy);
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-0.0015 * event.deltaY * (event.deltaMode === 1 ? 24 : 1)));
}, { passive: false });
const arrows = { ArrowLeft: [-16, 0], ArrowRight: [16, 0], ArrowUp: [0, -16], ArrowDown: [0, 16] };
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in arrows) (event.shiftKey ? move : turn)(...arrows[event.key]);
  else if ("+=".includes(event.key)) zoom(1.15);
  else if ("-_".includes(event.key)) zoom(1 / 1.15);
  else if (event.key === "0") reset();
  else return;
  event.preventDefault();
});
function reset() {
  Object.assign(camera, start());
  draw();
}
$("reset").onclick = reset;

// ---- the rest of the page --------------------------------------------------------------------------------------------
for (const name of Object.keys(shown)) {
  const box = $("show-" + name);
  shown[name] = box.checked; // browsers keep the state of a box when a page is loaded again
  box.onchange = () => { shown[name] = box.checked; draw(); };
}

function show(id) {
  load(id);
  $("keys-label").hidden = !(source.keys || reference.keys);
  $("source-total").textContent = data.source.count;
  $("reference-total").textContent = data.reference.count;
  $("notes").replaceChildren(...data.notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  for (const about of document.querySelectorAll("[data-about]")) about.hidden = about.dataset.about !== id;
  for (const row of document.querySelectorAll("[data-scene]")) {
    row.setAttribute("aria-current", row.dataset.scene === id);
    const list = row.closest(".list"), out = row.offsetTop < list.scrollTop || row.offsetTop > list.scrollTop + list.clientHeight - 30;
    if (row.dataset.scene === id && out) list.scrollTop = row.offsetTop - list.clientHeight / 2;
  }
  reset();
}
for (const row of document.querySelectorAll("[data-scene]")) row.onclick = () => show(row.dataset.scene);

// The hypotheses of a report: other motions of the same source.
function showMotion(number) {
  data = { ...data, ...data.motions[number] };
  for (const row of document.querySelectorAll("[data-motion]")) row.setAttribute("aria-current", row.dataset.motion === number);
  for (const pose of document.querySelectorAll("[data-pose]")) pose.hidden = pose.dataset.pose !== number;
  run++;
  setProgress(1);
}
for (const row of document.querySelectorAll("[data-motion]")) row.onclick = () => showMotion(row.dataset.motion);

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // refused, or absent in a page that was not served securely
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
for (const button of document.querySelectorAll(".copy")) {
  const label = button.textContent;
  button.onclick = async () => {
    button.textContent = (await copy(button.dataset.copy)) ? "Copied" : "Could not copy";
    setTimeout(() => { button.textContent = label; }, 1500);
  };
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); draw(); });
canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvas.addEventListener("webglcontextrestored", () => { paint = webgl(); draw(); });
new ResizeObserver(draw).observe(canvas);
readColors();
show(first);
setProgress(progress);
})();
