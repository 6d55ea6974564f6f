// Draws the charts that client/cleave/report/charts.py decided on, with Observable Plot, once per width.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const CAP = 4; // half the width of an error bar's end, in pixels

  const cut = (name, length) => (name.length > length ? `${name.slice(0, length - 1)}\u2026` : name);
  const title = (point) => point.title;

  // Error bars of every kind of chart: a line from low to high and a short one across each end.
  function errors(points, { horizontal = false, half = CAP, stroke = "var(--ink)" } = {}) {
    const across = { draw: (context) => (context.moveTo(-half, 0), context.lineTo(half, 0)) };
    const upright = { draw: (context) => (context.moveTo(0, -half), context.lineTo(0, half)) };
    const known = points.filter((point) => point.low !== null);
    const [from, to, at] = horizontal ? ["x1", "x2", "y"] : ["y1", "y2", "x"];
    const rule = horizontal ? Plot.ruleY : Plot.ruleX;
    const value = horizontal ? "x" : "y";
    const line = { [at]: "place", [from]: "low", [to]: "high", stroke, className: "error" };
    const cap = (end) =>
      Plot.dot(known, {
        [at]: "place",
        [value]: end,
        symbol: horizontal ? upright : across,
        stroke,
        className: `error-${end}`,
      });
    return known.length ? [rule(known, line), cap("low"), cap("high")] : [];
  }

  // Two marks, so that what is undecided is hollow.
  function rectangles(mark, chart, options) {
    const fill = "var(--series-0)";
    const decided = chart.points.filter((point) => !point.undecided);
    const open = chart.points.filter((point) => point.undecided);
    return [
      mark(decided, { ...options, title, fill, className: "bar" }),
      mark(open, { ...options, title, fill, fillOpacity: 0.2, stroke: fill, strokeDasharray: "3,2", className: "open-bar" }),
    ];
  }

  function columns(chart, width) {
    const count = chart.names.length;
    const longest = Math.min(12, Math.max(...chart.names.map((name) => name.length)));
    const step = Math.max(1, Math.ceil((count * (longest * 6.5 + 8)) / (width - 76))); // names for as many as have room
    const ticks = chart.names.map((_, place) => place).filter((place) => place % step === 0);
    const labelled = count <= 12;
    const end = (point) => (point.value < 0 ? (point.low ?? point.value) : (point.high ?? point.value));
    const sides = [
      [chart.points.filter((point) => point.value >= 0), "bottom", -6],
      [chart.points.filter((point) => point.value < 0), "top", 6],
    ];
    return {
      width,
      height: 280,
      marginLeft: 56,
      marginTop: 24,
      marginBottom: 32,
      x: { type: "band", domain: chart.names.map((_, place) => place), padding: 0.3 },
      y: { nice: true, insetTop: labelled ? 12 : 0, insetBottom: labelled && sides[1][0].length ? 14 : 0 },
      marks: [
        Plot.gridY({ stroke: "var(--grid)", strokeOpacity: 1, ticks: 5 }),
        Plot.axisY({ label: null, ticks: 5, tickSize: 0, color: "var(--muted)" }),
        Plot.axisX({ label: null, ticks, tickSize: 0, color: "var(--muted)", tickFormat: (place) => cut(chart.names[place], Math.max(12, Math.floor((width - 76) / count / 7))) }),
        ...rectangles(Plot.barY, chart, { x: "place", y1: () => 0, y2: "value" }),
        Plot.ruleY([0], { stroke: "var(--axis)", className: "zero" }),
        ...errors(chart.points, { half: Math.min(CAP, width / count / 4) }),
        ...(labelled
          ? sides.map(([points, lineAnchor, dy]) =>
              Plot.text(points, { x: "place", y: end, text: "label", lineAnchor, dy, fill: "var(--ink)", className: "figure" }),
            )
          : []),
      ],
    };
  }

  function bars(chart, width) {
    const longest = Math.max(...chart.names.map((name) => name.length));
    const room = Math.min(32, Math.max(4, Math.floor(width / 20)), longest);
    const end = (point) => (point.value < 0 ? (point.low ?? point.value) : (point.high ?? point.value));
    const negative = chart.points.filter((point) => point.value < 0);
    const positive = chart.points.filter((point) => point.value >= 0);
    return {
      width,
      height: 44 + 22 * chart.names.length,
      marginLeft: 16 + room * 7.2,
      marginRight: 16,
      marginTop: 24,
      marginBottom: 8,
      x: { nice: true, insetRight: positive.length ? 52 : 8, insetLeft: negative.length ? 52 : 0 },
      y: { type: "band", domain: chart.names.map((_, place) => place), padding: 0.25 },
      marks: [
        Plot.gridX({ stroke: "var(--grid)", strokeOpacity: 1, ticks: Math.max(2, Math.floor(width / 120)) }),
        Plot.axisX({ label: null, anchor: "top", ticks: Math.max(2, Math.floor(width / 120)), tickSize: 0, color: "var(--muted)" }),
        Plot.axisY({ label: null, tickSize: 0, color: "var(--muted)", tickFormat: (place) => cut(chart.names[place], room) }),
        ...rectangles(Plot.barX, chart, { y: "place", x1: () => 0, x2: "value" }),
        Plot.ruleX([0], { stroke: "var(--axis)", className: "zero" }),
        ...errors(chart.points, { horizontal: true }),
        Plot.text(positive, { y: "place", x: end, text: "label", textAnchor: "start", dx: 7, fill: "var(--ink)", className: "figure" }),
        Plot.text(negative, { y: "place", x: end, text: "label", textAnchor: "end", dx: -7, fill: "var(--ink)", className: "figure" }),
      ],
    };
  }

  function line(chart, width) {
    const colour = (series) => `var(--series-${series})`;
    const lines = [...new Set(chart.points.map((point) => point.series))].map((series) => [
      series,
      chart.points.filter((point) => point.series === series).sort((a, b) => a.place - b.place),
    ]);
    return {
      width,
      height: 300,
      marginLeft: 56,
      marginRight: 24,
      marginTop: 24,
      marginBottom: 32,
      x: { type: "utc", transform: (time) => new Date(time) },
      y: { nice: true },
      marks: [
        Plot.gridY({ stroke: "var(--grid)", strokeOpacity: 1, ticks: 5 }),
        Plot.axisY({ label: null, ticks: 5, tickSize: 0, color: "var(--muted)" }),
        Plot.axisX({ label: null, ticks: Math.max(2, Math.floor(width / 110)), tickSize: 0, color: "var(--muted)" }),
        ...lines.map(([series, points]) =>
          Plot.lineY(points, { x: "place", y: "value", stroke: colour(series), strokeWidth: 2, className: "line" }),
        ),
        ...lines.flatMap(([series, points]) => [
          ...errors(points, { stroke: colour(series) }),
          Plot.dot(points.filter((point) => !point.undecided), {
            x: "place", y: "value", r: points.length > 120 ? 1.5 : 3, fill: colour(series), title, className: "point",
          }),
          Plot.dot(points.filter((point) => point.undecided), {
            x: "place", y: "value", r: 3.5, fill: "var(--page)", stroke: colour(series), title, className: "open-point",
          }),
        ]),
      ],
    };
  }

  const element = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([each, value]) => made.setAttribute(each, value));
    made.textContent = text;
    return made;
  };

  // Survival curves fall at the end of each step. A band has the intervals; counts of people at risk stand below.
  function curve(chart, width) {
    const colour = (series) => `var(--series-${series})`;
    const lines = chart.at_risk.map((_, series) => chart.points.filter((point) => point.series === series));
    const last = Math.max(...chart.points.map((point) => point.place));
    const named = chart.series.length > 0;
    const below = 18 * chart.at_risk.length;
    const stairs = (x, y, corners, start) =>
      corners.reduce((path, [place, value]) => `${path}H${x(place)}V${y(value)}`, start);
    const curves = (_, { x, y }) => {
      const group = element("g", { class: "curves" });
      lines.forEach((points, series) => {
        const known = points.filter((point) => point.low !== null);
        const end = known.length < points.length ? points[known.length].place : known.at(-1)?.place;
        if (known.length) {
          const high = stairs(x, y, known.map((point) => [point.place, point.high]), `M${x(0)},${y(1)}`);
          // back along the lower ends: at each step first to the left, then up
          const low = known.map((point, place) => [place ? known[place - 1].low : 1, point.low, point.place]).reverse();
          const back = low.map(([before, value, place]) => `V${y(value)}H${x(place)}V${y(before)}`).join("");
          const d = `${high}H${x(end)}${back}H${x(0)}Z`;
          group.append(element("path", { d, class: "band", fill: colour(series), "fill-opacity": 0.15 }));
        }
        const d = stairs(x, y, points.map((point) => [point.place, point.value]), `M${x(0)},${y(1)}`);
        group.append(element("path", { d, class: "curve", fill: "none", stroke: colour(series), "stroke-width": 2 }));
      });
      return group;
    };
    const atRisk = (_, { x }, __, { height, marginBottom }) => {
      const group = element("g", { class: "at-risk", fill: "var(--ink)", "text-anchor": "middle" });
      const top = height - marginBottom + 44;
      group.append(element("text", { x: 4, y: top, "text-anchor": "start", fill: "var(--muted)" }, "At risk"));
      chart.at_risk.forEach((counts, series) => {
        const y = top + 18 * (series + 1);
        if (named) group.append(element("text", { x: 4, y, "text-anchor": "start" }, cut(chart.series[series], 9)));
        counts.forEach((count, tick) => group.append(element("text", { x: x(chart.ticks[tick]), y }, count.toLocaleString("en"))));
      });
      return group;
    };
    return {
      width,
      height: 320 + below,
      marginLeft: named ? 84 : 56,
      marginRight: 24,
      marginTop: 24,
      marginBottom: 56 + below,
      x: { domain: [0, last] },
      y: { domain: [0, 1] },
      marks: [
        Plot.gridY({ stroke: "var(--grid)", strokeOpacity: 1, ticks: 5 }),
        Plot.axisY({ label: null, ticks: 5, tickSize: 0, color: "var(--muted)" }),
        Plot.axisX({ label: null, ticks: chart.ticks, tickSize: 0, color: "var(--muted)" }),
        curves,
        ...lines.map((points, series) =>
          Plot.dot(points, { x: "place", y: "value", r: 2, fill: colour(series), title, className: "point" }),
        ),
        atRisk,
      ],
    };
  }

  const kinds = { columns, bars, line, curve };

  function draw(chart, place) {
    const into = document.querySelector(`#chart-${place} .drawing`);
    let drawn = 0;
    const at = (width) => {
      if (width === drawn || width < 80) return;
      drawn = width;
      const plot = Plot.plot({ className: "plot", ...kinds[chart.kind](chart, width) });
      plot.querySelectorAll("style").forEach((style) => style.remove()); // style.css has it: the policy admits no other
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", chart.summary);
      into.replaceChildren(plot);
    };
    at(Math.floor(into.clientWidth));
    new ResizeObserver(([entry]) => at(Math.floor(entry.contentRect.width))).observe(into);
  }

  charts.forEach(draw);
})();
