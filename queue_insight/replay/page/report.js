"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const main = document.getElementById("main");
  const colors = ["#1f6fb4", "#d1495b", "#2e8b57", "#edae49", "#7b52ab", "#00798c", "#8c564b",
    "#e377c2", "#7f7f7f", "#9a9a00", "#17becf", "#444444"];
  const widest = 960;

  function add(tag, text, parent) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    (parent || main).appendChild(node);
    return node;
  }

  function duration(seconds) {
    const sign = seconds < 0 ? "-" : "";
    let left = Math.round(Math.abs(seconds));
    const parts = [];
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
      const count = Math.floor(left / size);
      left -= count * size;
      if (count && parts.length < 2) parts.push(count + " " + unit);
      else if (parts.length) break;
    }
    return sign + (parts.join(" ") || "0 s");
  }

  function amount(resource, value) {
    if (value === null || value === undefined) return "no limit";
    if (resource === "cpu") return (value / 1000).toLocaleString("en") + " cores";
    if (/memory|storage/.test(resource)) return (value / 2 ** 30).toFixed(1) + " GiB";
    return value.toLocaleString("en");
  }

  function table(heads, rows) {
    const node = add("table");
    const top = add("tr", undefined, add("thead", undefined, node));
    for (const head of heads) add("th", head, top);
    const body = add("tbody", undefined, node);
    for (const row of rows) {
      const line = add("tr", undefined, body);
      for (const cell of row) {
        const at = add("td", typeof cell === "object" ? cell.text : cell, line);
        if (typeof cell === "object") at.className = cell.mark;
      }
    }
  }

  function difference(seconds) {
    const mark = seconds < 0 ? "better" : seconds > 0 ? "worse" : "";
    return { text: (seconds > 0 ? "+" : "") + duration(seconds), mark: mark };
  }

  function plot(title, times, lines, options) {
    add("h3", title);
    const series = lines.map((line, number) => ({
      label: line.name,
      stroke: line.dash ? "#888888" : colors[number % colors.length],
      dash: line.dash,
      width: 1.5,
      spanGaps: false,
      value: (_, value) => value === null || value === undefined ? "" : options.show(value),
      // A number over time holds until the next one.
      ...(options.steps && { paths: uPlot.paths.stepped({ align: 1 }) }),
    }));
    new uPlot({
      width: Math.min(widest, main.clientWidth || widest),
      height: 260,
      scales: { x: { time: false }, y: options.scale || { range: (_, low, high) => [0, high || 1] } },
      axes: [
        { values: (_, ticks) => ticks.map(options.tick) },
        { size: 90, values: (_, ticks) => ticks.map((v) => v === null ? "" : options.show(v)) },
      ],
      series: [{ label: options.x, value: (_, v) => v === null ? "" : options.tick(v) }, ...series],
    }, options.steps ? held(times, lines) : [times, ...lines.map((line) => line.values)], add("div"));
  }

  // The last number holds for a step as well.
  function held(times, lines) {
    if (!times.length) return [times, ...lines.map((line) => line.values)];
    const [before, last] = [times.at(-2) ?? 0, times.at(-1)];
    const end = last + Math.max(last - before, 1);
    return [[...times, end], ...lines.map((line) => [...line.values, line.values.at(-1)])];
  }

  const isShort = report.trace.seconds < 2 * 86400;
  const day = (seconds) => isShort ? (seconds / 3600).toFixed(1) + " h"
    : (seconds / 86400).toFixed(1) + " d";
  const overTime = (show) => ({ x: "time", tick: day, show: show, steps: true });

  function timesOf(run, length) {
    return Array.from({ length: length }, (_, at) => at * run.pointSeconds);
  }

  function padded(values, length) {
    return values.concat(Array(length - values.length).fill(null));
  }

  function intro() {
    const trace = report.trace;
    add("p", trace.jobs.toLocaleString("en") + " jobs, submitted within " + duration(trace.seconds)
      + (trace.began ? " from " + trace.began : "") + ".");
    for (const row of trace.skipped) add("p", row.count + " rows are left out: " + row.why + ".");
    for (const run of report.runs) {
      for (const never of run.neverStarted) {
        add("p", run.name + ": " + never.count + " jobs never started: " + never.why);
      }
      for (const free of run.requestNothing) {
        add("p", run.name + ": " + free.jobs + " jobs of " + free.tenant
          + " request nothing that their quota limits.");
      }
    }
  }

  // Those whose p90 is longest come first.
  function usersOf(run) {
    return Object.entries(run.users ? run.users.waits : {})
      .sort(([one, own], [other, others]) => others.p90 - own.p90 || (one < other ? -1 : 1));
  }

  function waits() {
    add("h2", "Waits");
    const heads = ["", "jobs", "waited 1 min", "p50", "p90", "p99", "max", "mean"];
    const row = (name, own) => [name, own.jobs,
      own.jobs ? Math.round(100 * own.waited / own.jobs) + " %" : "",
      ...["p50", "p90", "p99", "max", "mean"].map((key) => duration(own[key]))];
    const percents = Array.from({ length: 21 }, (_, at) => 5 * at);
    const shown = { x: "percent of jobs", tick: (v) => v + " %", show: duration };
    const line = (name, own) => ({ name: name, values: own.every5Percent });
    if (report.runs.length > 1) {
      table(heads, report.runs.map((run) => row(run.name, run.waits.all)));
      plot("Wait that so many percent of the jobs do not exceed", percents,
        report.runs.map((run) => line(run.name, run.waits.all)), shown);
    }
    for (const run of report.runs) {
      add("h3", run.name);
      table(heads, [row("all", run.waits.all),
        ...Object.entries(run.waits.byTenant).map(([name, own]) => row(name, own)),
        ...usersOf(run).map(([name, own]) => row("user " + name, own))]);
      plot("Wait by tenant: what so many percent of its jobs do not exceed", percents,
        run.drawnTenants.map((name) => line(name, run.waits.byTenant[name])), shown);
    }
  }

  function lengths() {
    add("h2", "Queue length");
    const longest = Math.max(...report.runs.map((run) => run.queueLength.total.length));
    const show = (value) => value.toLocaleString("en") + " jobs";
    if (report.runs.length > 1) {
      plot("All jobs that wait", timesOf(report.runs[0], longest), report.runs.map((run) =>
        ({ name: run.name, values: padded(run.queueLength.total, longest) })), overTime(show));
    }
    for (const run of report.runs) {
      const total = run.queueLength.total;
      plot(run.name, timesOf(run, total.length), [{ name: "all", values: total },
        ...Object.entries(run.queueLength.byQuota).map(([name, values]) =>
          ({ name: name, values: values }))], overTime(show));
    }
  }

  function use() {
    add("h2", "Use");
    for (const run of report.runs) {
      const resources = new Set(Object.values(run.use).flatMap((of) => Object.keys(of)));
      for (const resource of resources) {
        const lines = [];
        let most = null;
        for (const [name, of] of Object.entries(run.use)) {
          if (!of[resource]) continue;
          lines.push({ name: name, values: of[resource].used });
          if (of[resource].limit !== null && (most === null || of[resource].limit > most)) {
            most = of[resource].limit;
          }
        }
        const length = run.queueLength.total.length;
        if (most !== null) {
          lines.push({ name: "largest limit", dash: [6, 4], values: Array(length).fill(most) });
        }
        plot(run.name + ": " + resource, timesOf(run, length), lines,
          overTime((value) => amount(resource, value)));
      }
    }
  }

  function bottlenecks() {
    if (!report.runs.some((run) => run.bottlenecks.length)) return;
    add("h2", "Bottlenecks");
    for (const run of report.runs) {
      add("h3", run.name);
      table(["quota", "resource", "reason", "job-hours"], run.bottlenecks.map((what) =>
        [what.quota || "none", what.resource, what.reason, what.jobHours.toLocaleString("en")]));
      const names = [...new Set(run.bottleneckHours.map((hour) => hour.quota || "none"))];
      if (!names.length) continue;
      plot("Jobs that wait, under the worst bottleneck of the hour",
        run.bottleneckHours.map((hour) => hour.at),
        names.slice(0, colors.length).map((name) => ({
          name: name,
          values: run.bottleneckHours.map((hour) =>
            (hour.quota || "none") === name ? hour.waiting : null),
        })), overTime((value) => value.toLocaleString("en") + " jobs"));
    }
    if (report.marginal.length) {
      add("h3", "One unit more");
      table(["quota", "more", "all jobs together wait less by", "p50", "p90"],
        report.marginal.map((row) => [row.quota, row.more + " " + row.resource,
          row.savedWaitHours.toLocaleString("en") + " h", difference(row.p50), difference(row.p90)]));
    }
  }

  function fairness() {
    add("h2", "Fairness");
    add("p", "The stretch of a tenant is the time from submission to end of its jobs, divided by"
      + " the time that they ran. Jain's index is 1 if all tenants have the same.");
    const tenants = [...new Set(report.runs.flatMap((run) => Object.keys(run.fairness.stretch)))];
    table(["", ...report.runs.map((run) => run.name)], [
      ["Jain's index", ...report.runs.map((run) => run.fairness.jain)],
      ...tenants.sort().map((name) =>
        [name, ...report.runs.map((run) => run.fairness.stretch[name] ?? "")])]);
    const withUsers = report.runs.filter((run) => run.users);
    if (!withUsers.length) return;
    add("p", "The same of the " + withUsers[0].users.count.toLocaleString("en") + " users."
      + " All count for Jain's index; listed are those whose waits were worst in any replay.");
    const users = [...new Set(withUsers.flatMap((run) => usersOf(run).map(([name]) => name)))];
    table(["", ...withUsers.map((run) => run.name)], [
      ["Jain's index of users", ...withUsers.map((run) => run.users.jain)],
      ...users.map((name) =>
        ["user " + name, ...withUsers.map((run) => run.users.stretch[name] ?? "")])]);
  }

  function starved() {
    if (report.shadow) return;
    add("h2", "Jobs that waited longest");
    for (const run of report.runs) {
      add("h3", run.name);
      table(["line", "name", "tenant", "submitted after", "wait", "run", "pods", "each requests"],
        run.starved.map((job) => [job.line, job.name, job.tenant, duration(job.submitted),
          job.wait === null ? "never started" : duration(job.wait), duration(job.run), job.pods,
          Object.entries(job.requests).map(([name, text]) => text + " " + name).join(", ")]));
    }
  }

  function comparisons() {
    for (const other of report.comparisons) {
      add("h2", other.name + " instead of " + other.with);
      const keys = ["p50", "p90", "p99", "max", "mean"];
      const row = (name, own) => [name, ...keys.map((key) => difference(own[key]))];
      table(["wait", ...keys], [row("all", other.waits),
        ...Object.entries(other.byTenant).map(([name, own]) => row(name, own)),
        ...Object.entries(other.users ? other.users.waits : {}).map(
          ([name, own]) => row("user " + name, own))]);
      add("p", "The last job ends " + difference(other.seconds).text + ", evictions "
        + (other.evictions > 0 ? "+" : "") + other.evictions + ", Jain's index "
        + (other.jain > 0 ? "+" : "") + other.jain
        + (other.users ? ", of users " + (other.users.jain > 0 ? "+" : "") + other.users.jain : "")
        + ".");
    }
  }

  function shadow() {
    if (!report.shadow) return;
    const percent = (share) => (100 * share).toFixed(1) + " %";
    add("h2", "Use of quotas, on average");
    table(["quota", "resource", "limit", "real", "shadow"],
      Object.entries(report.shadow.use).flatMap(([quota, of]) => Object.entries(of).map(
        ([resource, each]) => [quota, resource, amount(resource, each.limit),
          percent(each.real), percent(each.shadow)])));
    add("h2", "Order inversions");
    add("p", "Pairs of jobs of one queue of which the later one, with no higher priority,"
      + " started first.");
    const pairs = report.shadow.inversions;
    table(["queue", "real", "shadow"], [["all", pairs.all.real, pairs.all.shadow],
      ...Object.entries(pairs.byQueue).map(([name, own]) => [name, own.real, own.shadow])]);
  }

  function shadowJobs() {
    if (!report.shadow) return;
    add("h2", "Jobs");
    const jobs = report.shadow.jobs;
    if (jobs.length < report.trace.jobs) {
      add("p", "Those " + jobs.length + " of " + report.trace.jobs.toLocaleString("en")
        + " whose waits differ most; -o json has all.");
    }
    const day = (text) => text === null ? "" : text.replace("T", " ").replace("Z", "");
    table(["job", "queue", "submitted", "really started", "would have started", "earlier or later"],
      jobs.map((job) => [job.job, job.queue, day(job.submitted),
        day(job.started), day(job.wouldStart) || job.why,
        job.waitSeconds === null || job.wouldWaitSeconds === null ? ""
          : difference(job.wouldWaitSeconds - job.waitSeconds)]));
  }

  for (const part of [intro, shadow, comparisons, waits, lengths, use, bottlenecks, fairness, starved,
    shadowJobs]) {
    part();
  }
})();
