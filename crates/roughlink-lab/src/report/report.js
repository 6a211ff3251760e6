(() => {
  "use strict";
  const root = document.documentElement;
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down",
    "cross", "pentagon", "triangle-left", "triangle-right", "hourglass"];
  const COLORS = 10;
  const LONGEST = 16; // characters of a name at the end of a line
  const SMALL = 440; // narrower charts have no names at the ends of their lines
  const NAME = 14.5; // height of such a name

  // ---- light and dark ----
  const system = matchMedia("(prefers-color-scheme: dark)");
  const recall = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const store = (v) => { try { localStorage.setItem("theme", v); } catch { /* a file may have no storage */ } };
  let chosen = recall();
  const themeButton = document.getElementById("theme");
  function applyTheme() {
    const dark = chosen ? chosen === "dark" : system.matches;
    root.dataset.theme = dark ? "dark" : "light";
    themeButton.textContent = dark ? "Light colors" : "Dark colors";
  }
  applyTheme();

  // ---- charts ----
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const charts = [...document.querySelectorAll(".chart")].map((element) => ({
    element,
    spec: JSON.parse(document.getElementById(element.dataset.spec).textContent),
    hidden: new Set(),
    log: false,
    split: false,
    drawn: false,
  }));

  // The chart library interprets a subset of HTML in its texts, so escape ours.
  const plain = (s) => s.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const lines = (s) => { const [first, ...rest] = plain(s).split("\n"); return [`<b>${first}</b>`, ...rest].join("<br>"); };
  const place = (x) => (typeof x === "string" ? plain(x) : x);

  const short = (s, most = 18) => plain(s.length > most ? s.slice(0, most - 1) + "\u2026" : s);

  // Wraps a text between words into lines of at most `most` characters.
  const wrap = (s, most) => s.split(" ").reduce((rows, word) => {
    const last = rows[rows.length - 1];
    if (last && last.length + word.length < most) rows[rows.length - 1] += " " + word; else rows.push(word);
    return rows;
  }, []).map(plain).join("<br>");

  // Ticks of a logarithmic scale: 1, 2 and 5 of each decade, or only 1 if there are many decades.
  function decades([low, high]) {
    const out = [];
    for (let d = Math.floor(low); d <= high; d++) {
      for (const m of high - low > 4 ? [1] : [1, 2, 5]) {
        const v = m * 10 ** d;
        if (Math.log10(v) >= low && Math.log10(v) <= high) out.push(v);
      }
    }
    return out;
  }

  // `length`: space for the title, pixels.
  function axis(scale, length, ink, grid) {
    const out = {
      title: { text: wrap(scale.title, Math.max(12, length / 7)), standoff: 8, font: { size: 12.5 } }, type: scale.type, automargin: true,
      gridcolor: grid, linecolor: grid, zerolinecolor: grid, color: ink, tickfont: { size: 12 }, ticks: "outside",
      ticklen: 4, tickcolor: grid, exponentformat: "SI",
    };
    if (scale.type === "log" && scale.range && !scale.ticks) {
      out.tickvals = decades(scale.range);
      out.ticktext = out.tickvals.map((v) => String(Number(v.toPrecision(2))));
    }
    if (scale.range) { out.range = scale.range; out.autorange = false; }
    if (scale.type === "category") {
      out.categoryorder = "array";
      out.categoryarray = scale.names.map(plain); out.ticks = "";
      out.tickvals = out.categoryarray;
      out.range = [-0.5, scale.names.length - 0.5];
      out.ticktext = scale.names.map((n) => short(n));
    } else if (scale.ticks) {
      out.tickvals = scale.ticks;
      out.ticktext = scale.names;
    }
    return out;
  }

  function traceOf(t, { kind, dashes, steps }, page, room) {
    const color = css("--s" + (t.slot % COLORS));
    const symbol = SYMBOLS[t.slot % SYMBOLS.length];
    // Solid, then dashed, and dotted if there are more series than colors.
    const dash = !dashes || t.slot < COLORS / 2 ? "solid" : t.slot < COLORS ? "5px,3px" : "2px,3px";
    const out = {
      x: t.x.map(place), y: t.y, name: plain(t.name),
      hovertext: Array.isArray(t.text) ? t.text.map(lines) : lines(t.text), hovertemplate: "%{hovertext}<extra></extra>", showlegend: false,
      error_y: t.ci ? { type: "data", array: t.ci, color: color, thickness: 1.4, width: Math.min(3, room / 3) } : undefined,
    };
    if (t.role === "curve") {
      return Object.assign(out, {
        type: "scatter", mode: "lines", line: { color: color, width: t.x.length > 400 ? 1.3 : 1.8, dash, shape: steps ? "hv" : "linear" },
        hovertemplate: "%{hovertext}<br>%{x:.5~g}, %{y:.5~s}<extra></extra>",
      });
    }
    if (kind === "bar" && t.role === "mean") {
      out.error_y && (out.error_y.color = css("--ink"));
      // A bar that is only a lower bound is hatched and labeled with its figure.
      const pattern = t.bounds ? { shape: t.bounds.map((b) => (b ? "/" : "")), fgcolor: css("--ink"), size: 6, solidity: 0.2 } : undefined;
      const text = t.bounds ? { text: t.bounds.map((b) => b || ""), textposition: "outside", cliponaxis: false } : {};
      return Object.assign(out, { type: "bar", offsetgroup: String(t.slot), marker: { color: color, opacity: 0.82, pattern } }, text);
    }
    out.cliponaxis = false;
    if (t.role === "paper") {
      return Object.assign(out, {
        type: "scatter", mode: "markers", offsetgroup: kind === "bar" ? String(t.slot) : undefined,
        marker: kind === "bar"
          ? { symbol: "diamond", size: Math.max(4, Math.min(9, 0.7 * room)), color: page,
            line: { color: css("--ink"), width: room < 9 ? 1.2 : 1.8 } }
          : { symbol, size: 10, color: page, line: { color: color, width: 1.8 } },
      });
    }
    return Object.assign(out, {
      type: "scatter", mode: t.bounds ? "lines+markers+text" : "lines+markers", line: { color: color, width: 1.7, dash },
      text: t.bounds ? t.bounds.map((b) => b || "") : undefined, textposition: "top center",
      marker: { symbol: t.bounds ? t.bounds.map((b) => (b ? "triangle-up-open" : symbol)) : symbol, size: 7, color: color },
    });
  }

  function draw(chart) {
    const { element, spec, hidden } = chart;
    const ink = css("--ink"), muted = css("--muted"), grid = css("--grid"), page = css("--page");
    // Draw published points first, so that a measured one on top of them stays visible inside its open marker.
    const rank = { paper: spec.kind === "bar" ? 2 : 0, mean: 1, curve: 1 };
    const shown = spec.traces.filter((t) => !hidden.has(t.slot)).sort((a, b) => rank[a.role] - rank[b.role]);
    const several = new Set(spec.traces.map((t) => t.slot)).size > 1;
    const split = chart.split && several;
    const slots = [...new Set(shown.map((t) => t.slot))];
    element.style.height = split ? `${Math.max(23, slots.length * 6.5)}rem` : "";
    // Names at the ends of the lines, if there is enough width and height for all of them.
    const fit = element.clientWidth >= SMALL && slots.length * NAME <= element.clientHeight - 72;
    const named = chart.named = spec.kind !== "bar" && !split && several && fit;
    const layout = {
      width: element.clientWidth, height: element.clientHeight,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: "zoom",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: ink },
      margin: { l: 52, r: named ? 16 + 7 * Math.max(...spec.traces.map((t) => Math.min(t.name.length, LONGEST))) : 14, t: 26, b: 46 }, barmode: "group", scattermode: spec.kind === "bar" ? "group" : "overlay",
      bargap: 0.22, bargroupgap: 0.06, showlegend: false, annotations: [],
      hoverlabel: { bgcolor: css("--card"), bordercolor: muted, font: { color: ink }, align: "left" },
      xaxis: axis(spec.x, element.clientWidth - 80, ink, grid),
      yaxis: axis(chart.log ? { ...spec.y, type: "log", range: spec.y.log_range } : spec.y, element.clientHeight - 72, ink, grid),
      // Outages, shaded over the whole height.
      shapes: (spec.shades || []).map(([x0, x1]) => ({
        type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below", fillcolor: css("--shade"), line: { width: 0 },
      })),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: ink },
    };
    // Space of each bar, pixels.
    const room = spec.kind === "bar" ? (element.clientWidth - 70) / (spec.x.names.length * (slots.length + 0.3)) : 99;
    const traces = shown.map((t) => traceOf(t, spec, page, room));
    if (split) {
      const rows = [];
      const row = (slot) => slots.indexOf(slot) + 1;
      shown.forEach((t, i) => { traces[i].yaxis = row(t.slot) > 1 ? "y" + row(t.slot) : "y"; });
      for (const slot of slots) {
        const i = row(slot), n = slots.length, name = spec.traces.find((t) => t.slot === slot).name;
        const y = { ...layout.yaxis, domain: [1 - i / n, 1 - (i - 1) / n - 0.2 / n], nticks: 4, title: { text: "" } };
        rows.push(["yaxis" + (i > 1 ? i : ""), y]);
        layout.annotations.push({
          xref: "paper", yref: "paper", x: 0, y: y.domain[1], xanchor: "left", yanchor: "bottom", showarrow: false,
          text: short(name, 40), font: { size: 12, color: css("--s" + (slot % COLORS)) },
        });
      }
      Object.assign(layout, Object.fromEntries(rows));
      layout.xaxis.anchor = slots.length > 1 ? "y" + slots.length : "y";
    }
    const config = {
      responsive: false, displaylogo: false, displayModeBar: true,
      // No button may send data anywhere.
      plotlyServerURL: "", modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
      toImageButtonOptions: { format: "svg", filename: element.id },
    };
    return Plotly.react(element, traces, layout, config).then(() => {
      if (!chart.drawn) {
        chart.drawn = true;
        element.on("plotly_relayout", (change) => { if (!("annotations" in change) && !chart.split) nameLines(chart); });
      }
      if (named) return nameLines(chart);
    });
  }

  // Writes the names of the series at the right ends of their lines, moved apart where they would touch.
  function nameLines(chart) {
    const { element, spec, hidden } = chart;
    const full = element._fullLayout;
    if (!chart.named || !full || !full.yaxis) return;
    const height = full.yaxis._length, step = NAME;
    const places = new Map();
    for (const t of spec.traces) {
      if (hidden.has(t.slot) || t.role === "paper") continue;
      let last = -1;
      t.y.forEach((y, i) => {
        const x = full.xaxis.d2l(t.x[i]);
        if (y !== null && x >= Math.min(...full.xaxis.range) && x <= Math.max(...full.xaxis.range)) last = i;
      });
      if (last < 0) continue;
      const y = full.yaxis.l2p(full.yaxis.d2l(t.y[last]));
      if (Number.isFinite(y) && !places.has(t.slot)) places.set(t.slot, { t, y: Math.min(Math.max(y, 0), height) });
    }
    const names = [...places.values()].sort((a, b) => a.y - b.y);
    // Center blocks of touching names on the ends of their lines.
    let blocks = names.map((n) => ({ members: [n], y: n.y }));
    for (let again = true; again;) {
      again = false;
      for (const b of blocks) {
        const half = (b.members.length - 1) * step / 2;
        b.y = Math.min(Math.max(b.y, half), Math.max(height - half, half));
      }
      for (let i = 0; i + 1 < blocks.length; i++) {
        const a = blocks[i], b = blocks[i + 1];
        if (b.y - a.y < (a.members.length + b.members.length) * step / 2 - 0.01) {
          const members = a.members.concat(b.members);
          blocks.splice(i, 2, { members, y: members.reduce((s, m) => s + m.y, 0) / members.length });
          again = true;
          break;
        }
      }
    }
    const annotations = [];
    for (const b of blocks) {
      b.members.forEach((m, i) => {
        const y = b.y + (i - (b.members.length - 1) / 2) * step;
        annotations.push({
          xref: "paper", yref: "paper", x: 1, y: 1 - y / height, xanchor: "left", yanchor: "middle", xshift: 5,
          showarrow: false, text: short(m.t.name, LONGEST), font: { size: 12, color: css("--s" + (m.t.slot % COLORS)) },
        });
      });
    }
    return Plotly.relayout(element, { annotations });
  }

  const pause = () => new Promise((done) => setTimeout(done, 0));
  let turn = 0;
  const library = (async () => {
    const packed = atob(document.getElementById("library").textContent);
    const bytes = new Blob([Uint8Array.from(packed, (c) => c.charCodeAt(0))]);
    const script = document.createElement("script");
    script.textContent = await new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
    script.remove(); // it has run
  })();
  async function drawAll() {
    const mine = ++turn;
    root.dataset.charts = "drawing";
    await library;
    for (const chart of charts) {
      if (mine !== turn) return;
      await draw(chart);
      await pause();
    }
    root.dataset.charts = "drawn";
  }
  drawAll();

  themeButton.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    store(chosen);
    applyTheme();
    drawAll();
  });
  system.addEventListener("change", () => { if (!chosen) { applyTheme(); drawAll(); } });

  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(drawAll, 150);
  });

  // Print in the light theme and for the width of the paper.
  let before = null, opened = [];
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const d of opened) d.open = true;
    for (const c of charts) draw(c);
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = before;
    root.classList.remove("printing");
    for (const d of opened) d.open = false;
    drawAll();
  });

  // ---- legends: a series is shown or hidden in all panels of its figure ----
  for (const button of document.querySelectorAll(".legend button[data-slot]")) {
    button.addEventListener("click", () => {
      const show = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(show));
      const slot = Number(button.dataset.slot);
      const drawing = button.closest(".drawing");
      for (const chart of charts) {
        if (!drawing.contains(chart.element)) continue;
        if (show) chart.hidden.delete(slot); else chart.hidden.add(slot);
        draw(chart);
      }
    });
  }

  for (const button of document.querySelectorAll("button[data-toggle]")) {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      const drawing = button.closest(".drawing");
      for (const chart of charts) {
        if (!drawing.contains(chart.element)) continue;
        chart[button.dataset.toggle] = on;
        draw(chart);
      }
    });
  }

  // ---- data and commands ----
  for (const link of document.querySelectorAll("a[data-csv]")) {
    link.addEventListener("click", () => {
      const text = document.getElementById(link.dataset.csv).content.textContent;
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    });
  }
  // Saves the points of a section's charts as drawn. Formulas become text, as in csv.rs.
  const number = (v) => v === v.trim() && Number.isFinite(Number(v));
  const text = (v) => (typeof v === "string" && /^[=+\-@\t\r\n]/.test(v) && !number(v) ? "'" + v : v);
  const quoted = (v) => (/[",\n\r]/.test(v) ? `"${v.replace(/"/g, '""')}"` : v);
  const field = (v) => (v === null ? "" : quoted(text(v)));
  for (const link of document.querySelectorAll("a[data-drawn]")) {
    link.addEventListener("click", () => {
      const rows = [["chart", "series", "x", "y"]];
      const section = link.closest("section");
      for (const { element, spec } of charts.filter((c) => section.contains(c.element))) {
        const caption = element.closest("figure").querySelector("figcaption");
        const chart = caption ? caption.textContent : section.querySelector("h2").textContent;
        for (const t of spec.traces) t.x.forEach((x, i) => rows.push([chart, t.name, x, t.y[i]]));
      }
      const table = rows.map((row) => row.map(field).join(",") + "\n").join("");
      link.href = URL.createObjectURL(new Blob([table], { type: "text/csv;charset=utf-8" }));
    });
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const code = document.getElementById(button.dataset.copy);
      let done = false;
      try { await navigator.clipboard.writeText(code.textContent); done = true; } catch {
        const range = document.createRange();
        range.selectNodeContents(code);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        done = document.execCommand("copy");
      }
      const label = button.textContent;
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }
})();
