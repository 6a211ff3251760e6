(() => {
  "use strict";
  // All names come from a scenario or from packets, so insert them only as text.
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, cls) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (cls) element.className = cls;
    return element;
  };
  const token = new URLSearchParams(location.search).get("token") || "";
  const query = "?token=" + encodeURIComponent(token);
  const SHOWN = 60; // length of a chart, s
  const SMOOTH = 0.5; // interval of the means in a chart, s
  const FIGURE = 1; // interval of the mean in a table, s
  const TOUCHED = 800; // time after the user moves a slider in which samples do not move it, ms

  // ---- light and dark ----
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => { document.documentElement.dataset.theme = system.matches ? "dark" : "light"; };
  system.addEventListener("change", theme);
  theme();

  // ---- quantities ----
  const digits = (x) => (x === 0 ? "0" : x >= 100 ? String(Math.round(x)) : String(Number(x.toPrecision(3))));
  const scaled = (x, units) => {
    const [unit, size] = units.find(([, size]) => x >= size) || units[units.length - 1];
    return digits(x / size) + " " + unit;
  };
  const RATES = [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3], ["bit/s", 1]];
  const rate = (bps) => scaled(bps, RATES);
  const delay = (ms) => (ms >= 1000 ? digits(ms / 1000) + " s" : digits(ms) + " ms");
  const share = (x) => digits(x * 100) + " %";
  const volume = (bytes) => scaled(bytes, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]);
  const micros = (us) => (us >= 1000 ? digits(us / 1000) + " ms" : digits(us) + " us");
  const clock = (s) => (s < 60 ? s.toFixed(1) + " s" : Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s");

  // ---- samples ----
  let moments = []; // samples of a little more than the last minute, in order of time
  const keep = () => {
    const from = moments[moments.length - 1].t_s - SHOWN - SMOOTH;
    let i = 0;
    while (moments[i].t_s < from) i++;
    if (i > 0) moments = moments.slice(i);
  };
  // Returns the sample `seconds` before number `i`, or the first one.
  const before = (i, seconds) => {
    let j = i;
    while (j > 0 && moments[i].t_s - moments[j].t_s < seconds - 1e-9) j--;
    return moments[j];
  };
  // Returns the growth of the total `of` a sample per second, over the `seconds` before number `i`.
  const growth = (i, seconds, of) => {
    const [a, b] = [before(i, seconds), moments[i]];
    return b.t_s > a.t_s ? (of(b) - of(a)) / (b.t_s - a.t_s) : null;
  };

  // ---- charts ----
  const SVG = "http://www.w3.org/2000/svg";
  const shape = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const nice = (x) => {
    const ten = 10 ** Math.floor(Math.log10(x));
    return [1, 2, 5, 10].map((m) => m * ten).find((m) => m >= x * 0.999);
  };
  const visible = new Set();
  const looked = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) visible.add(entry.target); else visible.delete(entry.target);
    }
    // Draw charts that scroll into view: after the end no further sample would do it.
    soon();
  });

  // Creates a chart in a figure. `lines()` returns names, color numbers and `value(i)` at sample `i`. The chart is shaded
  // where `down(sample)` is true.
  function graph(figure, { lines, label, least, logarithmic, down }) {
    const plot = figure.querySelector(".plot");
    const caption = figure.querySelector("figcaption").textContent;
    const svg = shape("svg", { role: "img", "aria-label": caption });
    plot.append(svg);
    looked.observe(plot);
    let spoken = -Infinity;
    return () => {
      if (!visible.has(plot) || moments.length < 2) return;
      const [width, height] = [plot.clientWidth, plot.clientHeight];
      const [left, right, top, bottom] = [58, 4, 6, 18];
      const end = moments[moments.length - 1].t_s;
      const drawn = lines().map((line) => ({ ...line, values: moments.map((_, i) => line.value(i)) }));
      const most = Math.max(least, ...drawn.flatMap((line) => line.values).filter((v) => v !== null));
      const high = logarithmic ? 10 ** Math.ceil(Math.log10(most)) : nice(most);
      const x = (t) => left + (width - left - right) * (1 - (end - t) / SHOWN);
      const part = (v) => (logarithmic ? Math.max(0, Math.log10(Math.max(v, 1)) / Math.log10(high)) : v / high);
      const y = (v) => height - bottom - (height - top - bottom) * part(v);
      const parts = [];
      if (down) {
        let from = null;
        moments.forEach((m, i) => {
          const is = down(m);
          if (is && from === null) from = m.t_s;
          if (from !== null && (!is || i === moments.length - 1)) {
            const x0 = Math.max(left, x(from));
            if (x(m.t_s) > x0) parts.push(shape("rect", { x: x0, y: top, width: x(m.t_s) - x0, height: height - top - bottom }));
            from = null;
          }
        });
      }
      const ticks = logarithmic ? Array.from({ length: Math.round(Math.log10(high)) + 1 }, (_, k) => 10 ** k) : [0, high / 2, high];
      for (const tick of ticks) {
        parts.push(shape("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
        parts.push(shape("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, label(tick)));
      }
      for (const ago of [SHOWN, SHOWN / 2, 0]) {
        const anchor = ago === SHOWN ? "start" : ago === 0 ? "end" : "middle";
        parts.push(shape("text", { x: x(end - ago), y: height - 4, "text-anchor": anchor }, ago === 0 ? "now" : "-" + ago + " s"));
      }
      for (const { slot, values } of drawn) {
        let [d, pen] = ["", "M"];
        values.forEach((v, i) => {
          if (v === null || moments[i].t_s < end - SHOWN) { pen = "M"; return; }
          d += pen + x(moments[i].t_s).toFixed(1) + " " + y(v).toFixed(1);
          pen = "L";
        });
        if (d) parts.push(shape("path", { class: "s" + slot, d }));
      }
      svg.setAttribute("viewBox", "0 0 " + width + " " + height);
      svg.replaceChildren(...parts);
      if (end - spoken >= 5 || end < spoken) {
        spoken = end;
        const said = drawn.map(({ name, values }) => [name, values[values.length - 1]]);
        svg.setAttribute("aria-label", caption + ": " + said.map(([name, v]) => name + " " + (v === null ? "no value" : label(v))).join(", "));
      }
    };
  }
  // Creates the heading of a row, with the stroke of its line in charts.
  const heading = (name, slot) => {
    const cell = make("th", undefined, slot === null ? "" : "s" + slot);
    cell.scope = "row";
    if (slot !== null) cell.append(make("i"));
    cell.append(name);
    return cell;
  };
  const write = (cells, texts) => cells.forEach((cell, i) => { if (cell.textContent !== texts[i]) cell.textContent = texts[i]; });

  // ---- changes ----
  // Each control sends one change at a time, and then the latest of those that came meanwhile.
  const waiting = new Map();
  async function send(key, body, problem) {
    if (waiting.has(key)) { waiting.set(key, body); return; }
    waiting.set(key, null);
    let next = body;
    while (next) {
      try {
        const headers = { "content-type": "application/json" };
        const answer = await fetch("/change" + query, { method: "POST", headers, body: JSON.stringify(next) });
        problem.textContent = answer.ok ? "" : await answer.text();
      } catch {
        problem.textContent = "The change was not sent: there is no connection.";
      }
      await new Promise((later) => setTimeout(later, 100));
      next = waiting.get(key);
      waiting.set(key, null);
    }
    waiting.delete(key);
  }

  // A logarithmic slider with STEPS steps per decade, and optionally a zero before the first value.
  const STEPS = 24;
  function decades(low, high, zero) {
    const most = Math.round(Math.log10(high / low) * STEPS);
    return {
      min: zero ? -1 : 0,
      max: most,
      value: (place) => (place < 0 ? 0 : place >= most ? high : Number((low * 10 ** (place / STEPS)).toPrecision(2))),
      place: (value) => (value < low ? (zero ? -1 : 0) : Math.min(most, Math.round(Math.log10(value / low) * STEPS))),
    };
  }

  // ---- a link ----
  function link(spec, index, all, first) {
    const root = $("link").content.firstElementChild.cloneNode(true);
    const find = (what) => root.querySelector(what);
    const names = [spec.from + " \u2192 " + spec.to, spec.to + " \u2192 " + spec.from];
    find(".name").textContent = spec.name;
    find(".between").textContent = spec.from + " \u2194 " + spec.to;
    find("h2").id = "link-" + index;
    root.setAttribute("aria-labelledby", "link-" + index);
    const rows = [];
    for (const name of names) {
      const row = make("tr");
      row.append(heading(name, rows.length), ...Array.from({ length: 4 }, () => make("td", "", "num")));
      find("tbody").append(row);
      rows.push([...row.cells].slice(1));
    }
    const [controls, problem] = [find(".controls"), find(".problem")];
    const way = find(".way select");
    [way.options[1].text, way.options[2].text] = names;
    const ways = () => ({ both: [0, 1], forward: [0], reverse: [1] })[way.value];
    const now = () => moments[moments.length - 1].links[index];
    const ask = (key, change) => send(index + " " + key, { link: spec.name, direction: way.value, ...change }, problem);

    const scales = {
      rate: {
        ...decades(Math.max(all.rate_bps[0], 10 ** (Math.floor(Math.log10(first[0].rate_bps)) - 3)),
          Math.min(all.rate_bps[1], 10 ** (Math.ceil(Math.log10(first[0].rate_bps)) + 1)), false),
        is: (state) => state.rate_bps, text: rate, ask: (v) => ({ rate: Math.round(v) + " bit/s" }),
      },
      delay: {
        ...decades(0.1, Math.min(all.delay_ms[1], 2000), true),
        is: (state) => state.delay_ms, text: delay, ask: (v) => ({ delay: v + " ms" }),
      },
      loss: {
        ...decades(0.0001, 1, true),
        is: (state) => state.loss, text: share, ask: (v) => ({ loss: Number((v * 100).toPrecision(4)) + " %" }),
      },
    };
    const sliders = Object.entries(scales).map(([key, scale]) => {
      const row = find('[data-key="' + key + '"]');
      const [input, output] = [row.querySelector("input"), row.querySelector("output")];
      [input.min, input.max] = [scale.min, scale.max];
      const say = (text) => { output.textContent = text; input.setAttribute("aria-valuetext", text); };
      let touched = -Infinity;
      input.addEventListener("input", () => {
        touched = performance.now();
        const value = scale.value(Number(input.value));
        say(scale.text(value));
        ask(key, scale.ask(value));
      });
      return () => {
        row.hidden = key === "rate" ? !ways().every((w) => spec.rate[w]) : !spec.other;
        if (performance.now() - touched < TOUCHED || waiting.has(index + " " + key)) return;
        const value = scale.is(now()[ways()[0]]);
        if (value === null) { input.value = input.min; say("set by noise"); return; }
        const place = String(scale.place(value));
        if (input.value !== place) input.value = place;
        say(scale.text(value));
      };
    });
    const [button, lasts] = [find(".outage button"), find(".outage select")];
    const isDown = () => ways().some((w) => !now()[w].up);
    button.addEventListener("click", () => {
      ask("outage", isDown() ? { up: true } : lasts.value ? { outage: lasts.value } : { up: false });
    });
    find(".fixed").hidden = spec.other || spec.rate.some(Boolean);
    controls.hidden = !find(".fixed").hidden;

    const of = (m, line) => m.links[index][line];
    const gone = (m, line) => of(m, line).lost + of(m, line).dropped;
    const down = (m) => m.links[index].some((w) => !w.up);
    const draw = (name, value, label, least) => graph(find('[data-graph="' + name + '"]'), {
      lines: () => names.map((name, w) => ({ name, slot: w, value: (i) => value(i, w) })), label, least, down,
    });
    const graphs = [
      draw("sent", (i, w) => growth(i, SMOOTH, (m) => of(m, w).bytes * 8), rate, 1000),
      draw("waiting", (i, w) => of(moments[i], w).waiting, digits, 10),
      draw("gone", (i, w) => growth(i, SMOOTH, (m) => gone(m, w)), digits, 10),
    ];
    const show = () => {
      const last = moments.length - 1;
      rows.forEach((cells, w) => {
        const state = now()[w];
        const bps = growth(last, FIGURE, (m) => of(m, w).bytes * 8);
        write(cells, [rate(bps || 0), String(state.waiting), String(state.lost), String(state.dropped)]);
      });
      root.classList.toggle("down", down(moments[last]));
      const pressed = isDown();
      button.setAttribute("aria-pressed", String(pressed));
      const text = pressed ? "End the outage" : "Outage";
      if (button.textContent !== text) button.textContent = text;
      sliders.forEach((slider) => slider());
      graphs.forEach((draw) => draw());
    };
    way.addEventListener("change", () => { if (moments.length) show(); });
    return { root, show, close: () => { controls.disabled = true; } };
  }

  // ---- conversations ----
  // Charts show the conversations with the most bytes. A conversation keeps its color while it is among them.
  const DRAWN = 4;
  const talks = new Map(); // by key: row and color number
  const keyOf = (c) => [c.protocol, c.from, c.to].join(" ");
  const talkAt = (i, key) => moments[i].conversations.find((c) => keyOf(c) === key);
  const delivered = (c) => (c ? (c.delivered_bytes[0] || 0) + (c.delivered_bytes[1] || 0) : 0);
  const larger = (c, of) => { const [a, b] = c.delivered_bytes; return (b || 0) > (a || 0) ? of[1] ?? of[0] : of[0] ?? of[1]; };
  const bits = (i, seconds, key, way) => growth(i, seconds, (m) => {
    const c = m.conversations.find((c) => keyOf(c) === key);
    return c ? (way === undefined ? delivered(c) : c.delivered_bytes[way] || 0) * 8 : 0;
  });
  const ofTalks = (value) => () => [...talks].filter(([, t]) => t.slot !== null).map(([key, t]) => ({ name: key, slot: t.slot, value: (i) => value(i, key) }));
  const talkGraphs = [
    graph($("talks").querySelector('[data-graph="delivered"]'), { lines: ofTalks((i, key) => bits(i, SMOOTH, key)), label: rate, least: 1000 }),
    graph($("talks").querySelector('[data-graph="rtt"]'), {
      lines: ofTalks((i, key) => { const c = talkAt(i, key); return c ? larger(c, c.srtt_ms) : null; }), label: delay, least: 1,
    }),
  ];
  function showTalks() {
    const last = moments.length - 1;
    const now = moments[last].conversations;
    const keys = now.map(keyOf);
    for (const [key, t] of talks) {
      if (!keys.includes(key)) { t.row.remove(); talks.delete(key); }
    }
    now.forEach((c, i) => {
      const key = keys[i];
      if (!talks.has(key)) {
        const used = [...talks.values()].map((t) => t.slot);
        const slot = Array.from({ length: DRAWN }, (_, k) => k).find((k) => !used.includes(k)) ?? null;
        const row = make("tr");
        row.append(heading(c.protocol + " " + c.from + " \u2192 " + c.to, slot), ...Array.from({ length: 6 }, () => make("td", "", "num")));
        $("talks").querySelector("tbody").append(row);
        talks.set(key, { row, slot, cells: [...row.cells].slice(1) });
      }
      const rtt = larger(c, c.srtt_ms);
      const count = ([a, b]) => (a === null && b === null ? "-" : String((a || 0) + (b || 0)));
      write(talks.get(key).cells, [
        rate(bits(last, FIGURE, key, 0) || 0), rate(bits(last, FIGURE, key, 1) || 0),
        rtt === null ? "-" : delay(rtt), count(c.in_flight), count(c.retransmits), count(c.lost),
      ]);
    });
    $("talks").hidden = !talks.size;
    talkGraphs.forEach((draw) => draw());
  }

  // ---- lateness ----
  const drawLateness = graph($("timing").querySelector("figure"), {
    lines: () => ["p50", "p99"].map((key, slot) => ({
      name: key, slot, value: (i) => (moments[i].lateness_us ? moments[i].lateness_us[key] : null),
    })),
    label: micros, least: 100, logarithmic: true,
  });
  const late = (l) => "median " + micros(l.p50) + ", 99th percentile " + micros(l.p99) + ", longest " + micros(l.max);
  function showLateness() {
    const last = moments[moments.length - 1].lateness_us;
    if (last) write([...$("lateness").cells].slice(1), [micros(last.p50), micros(last.p99), micros(last.max)]);
    drawLateness();
  }

  // ---- the page ----
  let built = null;
  let parts = [];
  let known = ""; // the scenario for which the page was built
  let pending = false;
  function show() {
    pending = false;
    if (!moments.length) return;
    const last = moments[moments.length - 1];
    if (!built) {
      parts = known.links.map((spec, i) => link(spec, i, known, last.links[i]));
      $("links").replaceChildren(...parts.map((part) => part.root));
      built = known;
    }
    $("clock").textContent = clock(last.t_s);
    parts.forEach((part) => part.show());
    showTalks();
    showLateness();
  }
  const soon = () => { if (!pending) { pending = true; requestAnimationFrame(show); } };
  const STATES = {
    live: "live", lost: "connection lost, reconnecting", gone: "the emulation is gone", ended: "ended",
  };
  function state(name) {
    if ($("state").dataset.state === name) return;
    $("state").dataset.state = name;
    $("state").textContent = STATES[name];
    document.title = (name === "live" ? "" : "(" + STATES[name] + ") ") + $("name").textContent + " - roughlink live view";
  }

  const WHY = {
    interrupted: "The emulation was interrupted.", failed: "A program failed.", programs: "All programs have ended.",
    duration: "The duration is over.", vanished: "A device vanished.", exceeded: "The emulation exceeded a limit.",
    unwritten: "A file could not be written.",
  };
  function ended({ result, timeline }) {
    state("ended");
    const late_ = result.lateness_us ? " Lateness: " + late(result.lateness_us) + "." : "";
    const overruns = " Packets dropped because the link read them too slowly: " + (result.overruns ?? "\u2013") + ".";
    $("reason").textContent = (WHY[result.ended] || "") + " Duration: " + clock(result.sim_s) + "." + late_ + overruns;
    const rows = result.links.flatMap((l, i) => ["forward", "reverse"].map((way) => {
      const { from, to } = known.links[i];
      const row = make("tr");
      row.append(heading(l.name, null), make("td", way === "forward" ? from + " \u2192 " + to : to + " \u2192 " + from));
      for (const text of [l[way].packets, volume(l[way].bytes), l[way].lost, l[way].dropped]) row.append(make("td", String(text), "num"));
      return row;
    }));
    $("totals").replaceChildren(...rows);
    $("timeline").textContent = timeline;
    $("repeat").hidden = !timeline;
    $("ended").hidden = false;
    parts.forEach((part) => part.close());
  }

  const source = new EventSource("/events" + query);
  const on = (name, then) => source.addEventListener(name, (event) => then(JSON.parse(event.data)));
  on("start", ({ scenario, past }) => {
    if (!known) known = scenario;
    moments = past;
    $("name").textContent = scenario.name;
    state("live");
    soon();
  });
  on("sample", (sample) => {
    moments.push(sample);
    keep();
    soon();
  });
  on("end", (result) => {
    source.close();
    show();
    ended(result);
  });
  source.addEventListener("error", () => state(source.readyState === EventSource.CLOSED ? "gone" : "lost"));
})();
