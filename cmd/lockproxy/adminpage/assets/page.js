// The script of the page: it takes the stream of /live and writes it into the tables. Every name comes from
// somebody who may mean harm: text goes into the page by textContent alone, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const most = { points: 120, events: 200 };
const slots = 16384;
let hello = { actions: false, token: "" };
let points = [];
let events = [];
let paused = false;
let stream = null;

// element makes an element with a class and with children: elements, or texts.
function element(tag, style, ...children) {
  const e = document.createElement(tag);
  if (style) e.className = style;
  e.append(...children.filter((c) => c !== "" && c !== null));
  return e;
}

function draw(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

// here is the address of something that this proxy has. That of the page may have a password in it, which
// fetch refuses.
const here = (path) => new URL(path, location.origin + location.pathname);

function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

// fill writes rows into a table. A row that is there already and has not changed stays, and so does the
// focus. Each row is {key, cells}; a cell is {text, style} or {make, same}: make builds it, unless same is
// what it was. columns and rows are how many of them a cell spans.
function fill(id, rows, empty) {
  const body = $(id);
  const old = new Map();
  for (const tr of body.children) old.set(tr.dataset.key, tr);
  if (rows.length === 0) {
    const columns = body.parentElement.tHead.rows[0].cells.length;
    rows = [{ key: "", cells: [{ text: empty, style: "empty", columns }] }];
  }
  let at = body.firstElementChild;
  const seen = new Set();
  for (const row of rows) {
    let key = row.key;
    while (seen.has(key)) key += "+"; // names that were cut may be the same
    seen.add(key);
    let tr = old.get(key);
    old.delete(key);
    if (!tr) {
      tr = element("tr", row.style || "");
      tr.dataset.key = key;
    }
    row.cells.forEach((cell, i) => fillCell(tr, i, cell));
    if (tr === at) at = at.nextElementSibling;
    else body.insertBefore(tr, at);
  }
  for (const tr of old.values()) tr.remove();
}

function fillCell(tr, i, cell) {
  let td = tr.cells[i];
  if (!td) {
    td = tr.appendChild(element("td", cell.style || ""));
    if (cell.columns) td.colSpan = cell.columns;
  }
  td.rowSpan = cell.rows || 1;
  const same = cell.make ? cell.same : cell.text;
  if (td.dataset.same === same) return;
  td.dataset.same = same;
  td.replaceChildren(cell.make ? cell.make() : cell.text);
}

const text = (text, style) => ({ text: String(text), style });
const num = (value) => ({ text: String(value), style: "num" });
const parts = (value, make, style) => ({ same: JSON.stringify(value), make, style });
const tag = (word, style) => parts([word, style], () => element("span", "tag " + style, word));

// Figures as people read them.
function rate(n) {
  if (n >= 10000) return Math.round(n / 1000).toLocaleString("en") + " k";
  return n >= 100 || n === 0 ? Math.round(n).toLocaleString("en") : n.toFixed(1);
}
const count = (n) => n.toLocaleString("en");
const short = (n) => n >= 10 ? String(Math.round(n)) : n.toFixed(1);
function micros(us) {
  if (us === 0) return "–";
  if (us < 1000) return us + " µs";
  return us < 1e6 ? short(us / 1000) + " ms" : short(us / 1e6) + " s";
}
function lasting(ms) {
  if (ms < 1000) return Math.max(ms, 0) + " ms";
  const s = Math.round(ms / 1000);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " m " + (s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " m";
  return Math.floor(s / 86400) + " d " + Math.floor(s / 3600) % 24 + " h";
}
function bytes(n) {
  return n < 1024 * 1024 ? Math.round(n / 1024) + " KiB" : (n / 1024 / 1024).toFixed(1) + " MiB";
}
function clock(ms) {
  const t = new Date(ms);
  return t.toLocaleTimeString("en-GB") + "." + String(t.getMilliseconds()).padStart(3, "0");
}

// who is a client in one line: its name, or where it comes from.
const who = (c) => c.client || c.addr || "not known";

function pairs(id, all) {
  const same = JSON.stringify(all);
  if ($(id).dataset.same === same) return;
  $(id).dataset.same = same;
  $(id).replaceChildren(...all.map(([name, value]) =>
    element("div", "", element("dt", "", name), element("dd", "", value))));
}

function state(word, style) {
  setText("state", word);
  $("state").className = "pill " + style;
  document.title = style === "good" ? "lockproxy" : word + " – lockproxy";
}

// curve draws the last points; the newest is at the right.
function curve(id, value) {
  const now = points.length > 0 ? points[points.length - 1].at : 0;
  const some = points.filter((p) => p.at > now - most.points * 1000);
  const top = Math.max(1, ...some.map(value)) * 1.08;
  const at = (p) => [(100 - (now - p.at) / (most.points * 10)).toFixed(2), (30 - 29 * value(p) / top).toFixed(2)];
  const svg = $(id);
  svg.setAttribute("viewBox", "0 0 100 31");
  svg.setAttribute("preserveAspectRatio", "none");
  if (some.length < 2) return svg.replaceChildren();
  const line = some.map((p) => at(p).join(",")).join(" ");
  const first = at(some[0])[0];
  svg.replaceChildren(draw("polygon", { class: "area", points: `${first},31 ${line} 100,31` }),
    draw("polyline", { class: "line", points: line }));
}

function showStatus(s) {
  points = points.concat([s.rate]).slice(-most.points);
  const ready = s.notReady.length === 0;
  state(ready ? "ready" : "not ready", ready ? "good" : "bad");
  $("trouble").hidden = ready;
  if (!ready) $("reasons").replaceChildren(...s.notReady.map((r) => element("li", "", r)));
  pairs("facts", [["upstream", s.kind + (s.dev ? " (in memory)" : "") || "not known yet"], ["version", s.version],
    ["proxy", s.proxy], ["up", lasting(s.up)]]);
  setText("rate", rate(s.rate.commands));
  setText("grants", rate(s.rate.grants));
  setText("waiting", count(s.waiting));
  setText("p99", micros(s.p99));
  setText("clients", count(s.clients));
  pairs("latencies", [["50 %", micros(s.p50)], ["", ""], ["locks 50 %", micros(s.lockP50)], ["locks 99 %", micros(s.lockP99)]]);
  pairs("counts", [["kept alive", count(s.kept)], ["memory", s.memory > 0 ? bytes(s.memory) : "little"], ["refused", count(s.refused)],
    ["lost", count(s.lost)]]);
  curve("curve-commands", (p) => p.commands);
  curve("curve-grants", (p) => p.grants);
  curve("curve-waiting", (p) => p.waiting);
  setText("whose", s.everywhere ? "of all proxies" : "of this proxy; lock-events yes shows those of all");
  showNodes(s);
  showMasters(s.masters);
  fill("busy-rows", s.busiest.map((b) => ({ key: b.name,
    cells: [text(b.name, "name"), num(count(b.grants)), num(count(b.refusals)), num(count(b.waits))] })),
    "No lock has been asked for.");
  fill("command-rows", s.commands.map((c) => ({ key: c.name, cells: [text(c.name.toUpperCase(), "name"),
    num(rate(c.rate)), num(rate(c.errors)), num(micros(c.p50)), num(micros(c.p99))] })), "Nothing in the last seconds.");
  fill("proxy-rows", s.proxies.map((p) => ({ key: p.id, cells: [text(p.id, "name"),
    tag(p.silent ? "does not answer" : p.self ? "this one" : "answers", p.silent ? "bad" : "good")] })), "");
  fill("setting-rows", s.settings.map((one) => ({ key: one.name,
    cells: [text(one.name, "name"), text(one.value, "name"), text(one.default, "name sub")] })), "All have their defaults.");
}

function nodeState(n) {
  if (n.down) return ["down " + lasting(n.since), "bad", n.down];
  if (n.evicts) return ["may evict locks", "warn", ""];
  if (n.master || n.fit === "yes") return ["up", "good", ""];
  if (n.fit === "no") return ["not read from", "warn", "it does not answer, loads, lags, or is in another zone"];
  return ["not asked", "", "its master lists it"];
}

// stateCell is a word and, if something is wrong, what.
const stateCell = ([word, style, why]) => parts([word, style, why], () => element("div", "",
  element("span", "tag " + style, word), element("div", "sub", why)));

// ranges are the first and the last slot of each range that a node has.
const ranges = (n) => n.slots.split(",").filter((r) => r !== "").map((r) => {
  const [first, last] = r.split("-").map(Number);
  return [first, last === undefined ? first : last];
});
const slotsOf = (n) => ranges(n).reduce((sum, [first, last]) => sum + last - first + 1, 0);

function showNodes(s) {
  const masters = s.nodes.filter((n) => n.master);
  const served = masters.filter((n) => !n.down).reduce((sum, n) => sum + slotsOf(n), 0);
  setText("served", s.kind === "" ? "not known yet" : `${count(served)} of ${count(slots)} slots have a master ` +
    "that answers" + (s.noMaster ? "; none at all: " + s.noMaster : ""));
  fill("node-rows", s.nodes.map((n) => ({ key: n.addr, cells: [
    parts([n.addr, masters.indexOf(n)], () => element("span", "",
      element("span", "dot" + (n.master ? " s" + masters.indexOf(n) % 8 : "")), n.addr), "name"),
    text(n.master ? "master" : "replica of " + n.follows), stateCell(nodeState(n)),
    parts([n.slots], () => element("span", "", n.slots ? count(slotsOf(n)) + " " : "–",
      element("span", "sub", n.slots.length > 60 ? n.slots.slice(0, 60) + "…" : n.slots))),
    num(rate(n.rate)), num(rate(n.errors)), num(count(n.connections)),
  ] })), "No node is known yet.");
  const same = JSON.stringify(masters.map((n) => [n.slots, n.down !== ""]));
  if ($("slots").dataset.same === same) return;
  $("slots").dataset.same = same;
  const bars = [];
  masters.forEach((n, i) => {
    for (const [first, last] of ranges(n)) {
      const bar = draw("rect", { class: `s${i % 8}${n.down ? " down" : ""}`, x: first, y: 0, height: 10,
        width: last - first + 1 });
      const title = draw("title", {});
      title.textContent = `${n.addr}: ${first}-${last}`;
      bar.append(title);
      bars.push(bar);
    }
  });
  $("slots").replaceChildren(...bars);
}

function showMasters(masters) {
  $("redlock").hidden = masters.length === 0;
  const votes = masters.filter((m) => m.votes).length;
  setText("votes", `${votes} of ${masters.length} vote, ${Math.floor(masters.length / 2) + 1} are needed`);
  fill("master-rows", masters.map((m) => ({ key: m.addr, cells: [text(m.addr, "name"),
    tag(m.votes ? "votes" : m.up ? "does not vote" : "down", m.votes ? "good" : m.up ? "warn" : "bad"),
    text(m.why + (m.until > 0 ? `, for ${lasting(m.until)}` : "")), num(m.offset + " ms")] })), "");
}

const stateStyles = { write: "good", read: "good", permits: "good", resting: "warn", free: "" };

// holders are the rows of a lock: one a holder. The others of its cells span them.
function holders(r, before, behind) {
  const all = r.holders.map((h) => [parts({ ...h, ttl: 0, age: 0 }, () => element("div", "", who(h), " ",
    element("span", "sub", [h.client && h.addr, h.user && h.user !== "default" && "user " + h.user, "token " + h.token,
      h.kept && "kept alive", h.count > 1 && "count " + h.count, h.meta].filter(Boolean).join(" · ")))),
    num(lasting(h.age)), num(lasting(h.ttl))]);
  const more = r.held - r.holders.length;
  if (more > 0) all.push([{ ...text(`and ${count(more)} more`, "sub"), columns: 3 }]);
  if (all.length === 0) all.push([text("–"), num(""), num("")]);
  const span = (cell) => ({ ...cell, rows: all.length });
  return all.map((cells, i) => i === 0 ? { key: r.id, cells: [...before.map(span), ...cells, ...behind.map(span)] } :
    { key: r.id + (cells.length > 1 ? " " + i : " more"), cells });
}

function waiters(r) {
  const box = element("div", "");
  if (r.waiters === 0) return box;
  box.append(element("b", "", count(r.waiters)));
  for (const w of r.waiting) box.append(element("div", "sub", `${who(w)}, ${lasting(w.waited)}`));
  const more = r.waiters - r.waiting.length;
  if (more > 0 && r.waiting.length > 0) box.append(element("div", "sub", `and ${count(more)} more`));
  return box;
}

let rows = new Map(); // the locks that are shown, by id

function showLocks(l) {
  rows = new Map(l.rows.map((r) => [r.id, r]));
  const all = l.names > l.rows.length ? ` of about ${count(l.names)}: search for others` : "";
  const which = l.match ? `with “${l.match}” in the name` : "held or waited for";
  setText("shown", l.error || `${count(l.rows.length)} locks ${which}${all}`);
  $("shown").classList.toggle("bad", Boolean(l.error));
  fill("lock-rows", l.rows.flatMap((r) => holders(r, [
    parts([r.name, r.fence], () => element("div", "", r.name, element("div", "sub", r.fence ? "fence " + r.fence : "")), "name"),
    parts([r.state, r.used, r.of, r.rest > 0], () => element("span", "tag " + stateStyles[r.state],
      r.state + (r.of ? ` ${r.used} of ${r.of}` : ""))),
  ], [
    parts([r.waiters, r.waiting], () => waiters(r)),
    parts([hello.actions, r.held > 0, r.rest > 0], () =>
      hello.actions && (r.held > 0 || r.rest > 0) ? breakButton(r.id) : "", "act"),
  ])), l.error ? "" : "There is none.");
}

function breakButton(id) {
  const button = element("button", "quiet", "Break");
  button.type = "button";
  button.setAttribute("aria-label", "Break " + rows.get(id).name);
  button.addEventListener("click", () => askToBreak(id));
  return button;
}

function askToBreak(id) {
  const r = rows.get(id);
  if (!r) return say("This lock is not held any more.");
  setText("break-name", r.name);
  setText("break-holder", r.holders.map((h) => "Held by " + who(h) + " for " + lasting(h.age)).join("; ") ||
    "Nobody holds it: it rests for another " + lasting(r.rest));
  $("break").returnValue = "no";
  $("break").dataset.id = id;
  $("break").showModal();
}

async function breakLock(id) {
  try {
    const answer = await fetch(here("break"), { method: "POST", body: JSON.stringify({ id }),
      headers: { "Content-Type": "application/json", "Lockproxy-Token": hello.token } });
    if (!answer.ok) return say("Not broken: " + (await answer.text()).trim());
    say((await answer.json()).broken ? "The lock is broken." : "Nobody held it any more.");
  } catch (e) {
    say("Not broken, or not known whether: " + e.message);
  }
}

let saying = 0;
function say(words) {
  setText("said", words);
  $("said").hidden = false;
  clearTimeout(saying);
  saying = setTimeout(() => { $("said").hidden = true; }, 6000);
}

const eventStyles = { granted: "good", released: "", lost: "bad", broken: "bad", waiting: "warn", timeout: "warn",
  missed: "bad", skipped: "" };

function showEvents(fresh) {
  events = fresh.concat([]).reverse().concat(events).slice(0, most.events);
  if (paused) return;
  fill("event-rows", events.map((e) => ({ key: String(e.seq), style: "new", cells: [
    text(clock(e.time), "num"), tag(e.kind, eventStyles[e.kind] || ""),
    parts(0, () => element("div", "", e.lock || (e.count ? count(e.count) + " events" : ""),
      element("div", "sub", [e.mode !== "write" && e.mode, e.fence && "fence " + e.fence, e.reason].filter(Boolean).join(" · "))), "name"),
    parts(0, () => element("div", "", e.kind === "missed" || e.kind === "skipped" ? "" : who(e),
      element("div", "sub", [e.client && e.addr, e.token && "token " + e.token].filter(Boolean).join(" · ")))),
  ] })), "Nothing has happened since the page was opened.");
}

function open() {
  if (stream) stream.close();
  const match = $("match").value.trim();
  stream = new EventSource(here("live?match=" + encodeURIComponent(match)));
  const on = (kind, show) => stream.addEventListener(kind, (e) => show(JSON.parse(e.data)));
  on("hello", (h) => {
    hello = h;
    points = h.points;
    events = [];
    showEvents([]);
  });
  on("status", showStatus);
  on("locks", (l) => { if (l.match === $("match").value.trim()) showLocks(l); });
  on("events", showEvents);
  stream.onerror = () => {
    state("connection lost", "bad");
    if (stream.readyState === EventSource.CLOSED) setTimeout(open, 3000);
  };
}

let typing = 0;
$("match").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(open, 300);
});
$("search").addEventListener("submit", (e) => {
  e.preventDefault();
  clearTimeout(typing);
  open();
});
$("hold").addEventListener("click", () => {
  paused = !paused;
  $("hold").setAttribute("aria-pressed", String(paused));
  setText("hold", paused ? "Go on" : "Pause");
  showEvents([]);
});
$("break").addEventListener("close", () => {
  if ($("break").returnValue === "yes") breakLock($("break").dataset.id);
});
open();
