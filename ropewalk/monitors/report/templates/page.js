"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const drawn = new Set();
  const hiddenRuns = new Set();
  let smoothing = 0;

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const theme = () => ({
    slots: [0, 1, 2, 3, 4, 5, 6, 7].map((slot) => css(`--c${slot}`)),
    ink: css("--ink"), muted: css("--muted"), line: css("--line"), strong: css("--strong-line"),
    surface: css("--surface"), font: css("--font"),
  });
  const faded = (colour, opacity) => {
    const parts = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
    return `rgba(${parts.join(",")},${opacity})`;
  };

  // Exponential mean without a bias towards zero at the start.
  const smooth = (values, weight) => {
    let sum = 0, mass = 0;
    return values.map((value) => {
      sum = weight * sum + value;
      mass = weight * mass + 1;
      return sum / mass;
    });
  };

  const coloured = (trace, look) => {
    const meta = trace.meta || {};
    const colour = meta.before ? look.muted : look.slots[meta.slot || 0];
    const copy = { ...trace };
    if (meta.run !== undefined && hiddenRuns.has(meta.run)) copy.visible = false;
    if (meta.band) return { ...copy, fillcolor: faded(colour, 0.15), line: { width: 0, color: colour } };
    if (trace.type === "bar") {
      const opacity = meta.before ? 0.55 : trace.orientation || !("width" in trace) ? 1 : 0.6;
      return { ...copy, marker: { color: colour, opacity, line: { width: 0 } } };
    }
    if (trace.stackgroup) return { ...copy, fillcolor: faded(colour, 0.85), line: { width: 0, color: colour } };
    return { ...copy, line: { ...trace.line, color: colour }, marker: { ...trace.marker, color: colour } };
  };

  const tracesOf = (spec, look) => spec.data.flatMap((trace) => {
    const shown = coloured(trace, look);
    if (!smoothing || !(trace.meta && trace.meta.smooth)) return [shown];
    const raw = { ...shown, opacity: 0.25, hoverinfo: "skip", showlegend: false, line: { ...shown.line, width: 1 } };
    return [raw, { ...shown, mode: "lines", y: smooth(trace.y, smoothing) }];
  });

  const layoutOf = (spec, look) => {
    const own = spec.layout;
    const axis = { zeroline: false, linecolor: look.strong, tickcolor: look.strong, exponentformat: "power",
      automargin: true, fixedrange: false };
    const bars = spec.data.some((trace) => trace.orientation === "h");
    return {
      ...own,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look.font, size: 12, color: look.muted },
      margin: { l: 48, r: 10, t: 8, b: 40 },
      bargap: bars ? 0.35 : 0.08,
      hoverlabel: { bgcolor: look.surface, bordercolor: look.strong, font: { family: look.font, color: look.ink } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: look.ink }, bgcolor: "rgba(0,0,0,0)",
        ...own.legend },
      xaxis: { ...axis, gridcolor: look.line, showgrid: own.hovermode === "closest", nticks: 8, ...own.xaxis },
      yaxis: { ...axis, gridcolor: look.line, zeroline: !bars, zerolinecolor: look.strong, nticks: 6, ...own.yaxis },
    };
  };

  const draw = (plot) => {
    const spec = specs[plot.dataset.chart];
    if (!spec) return;
    const look = theme();
    drawn.add(plot);
    Plotly.react(plot, tracesOf(spec, look), layoutOf(spec, look), {
      displayModeBar: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
    });
  };
  const redraw = () => drawn.forEach(draw);

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "1200px" });
  plots.forEach((plot) => watcher.observe(plot));
  addEventListener("beforeprint", () => plots.filter((plot) => !drawn.has(plot)).forEach(draw));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const themes = ["system", "light", "dark"];
  const themeButton = document.getElementById("theme");
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "system") + 1) % themes.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    themeButton.textContent = `Theme: ${next}`;
    redraw();
  });

  let pending = 0;
  document.getElementById("smoothing")?.addEventListener("input", (event) => {
    smoothing = Number(event.target.value);
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(redraw);
  });

  document.querySelectorAll(".run").forEach((button) => button.addEventListener("click", () => {
    const run = Number(button.dataset.run);
    if (hiddenRuns.delete(run)) button.setAttribute("aria-pressed", "true");
    else {
      hiddenRuns.add(run);
      button.setAttribute("aria-pressed", "false");
    }
    redraw();
  }));

  document.querySelectorAll(".expand").forEach((button) => button.addEventListener("click", () => {
    const wide = button.closest(".chart").classList.toggle("expanded");
    button.setAttribute("aria-pressed", String(wide));
    button.textContent = wide ? "Narrower" : "Wider";
    const plot = button.closest(".chart").querySelector(".plot");
    if (drawn.has(plot)) Plotly.Plots.resize(plot);
  }));

  const filters = document.getElementById("filters");
  if (!filters) return;
  const rows = document.getElementById("rows");
  const more = document.getElementById("more");
  const count = document.getElementById("count");
  const samples = [...rows.children].map((node, position) => ({
    node, position, text: node.textContent.toLowerCase(), iteration: node.dataset.iteration, kept: node.dataset.kept,
    reward: node.dataset.reward === "" ? NaN : Number(node.dataset.reward),
  }));
  const page = 12;
  let limit = page;
  const byReward = (sign) => (a, b) => {
    if (Number.isNaN(a.reward) || Number.isNaN(b.reward)) return Number.isNaN(a.reward) - Number.isNaN(b.reward);
    return sign * (a.reward - b.reward) || a.position - b.position;
  };
  const orders = {
    new: (a, b) => b.iteration - a.iteration || a.position - b.position,
    old: (a, b) => a.position - b.position,
    high: byReward(-1),
    low: byReward(1),
  };
  const list = () => {
    const words = filters.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { value: iteration } = filters.elements.iteration;
    const { value: kept } = filters.elements.kept;
    const found = samples
      .filter((s) => (!iteration || s.iteration === iteration) && (!kept || s.kept === kept))
      .filter((s) => words.every((word) => s.text.includes(word)))
      .sort(orders[filters.elements.order.value]);
    rows.replaceChildren(...found.slice(0, limit).map((s) => s.node));
    count.textContent = found.length === 1 ? "1 sample" : `${found.length} samples`;
    more.hidden = found.length <= limit;
  };
  filters.addEventListener("input", () => { limit = page; list(); });
  filters.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { limit += 4 * page; list(); });
  list();
})();
