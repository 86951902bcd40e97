import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { programSpans } from "./program-pages.ts";

const mapping = (line: string, anonymous: number) => `${line}
Size:               2000 kB
Rss:                1000 kB
Anonymous:          ${anonymous} kB
VmFlags: rd ex mr mw me`;

test("only what stands in a file and nowhere else is let go", () => {
  const smaps = [
    mapping("00400000-00c00000 r--p 00000000 fe:00 5309993                            /usr/bin/node", 0),
    mapping("00c00000-02a00000 r-xp 00800000 fe:00 5309993                            /usr/bin/node", 0),
    // The loader wrote here before it took the right away.
    mapping("06b52000-06b56000 r--p 06751000 fe:00 5309993                            /usr/bin/node", 16),
    mapping("06b56000-06b70000 rw-p 06755000 fe:00 5309993                            /usr/bin/node", 0),
    mapping("06b70000-06b80000 rwxp 00000000 00:00 0", 0),
    mapping("06b90000-06ba0000 r--s 00000000 fe:00 77                                 /var/lib/shared", 0),
    mapping("06bb0000-06bc0000 ---p 00000000 fe:00 78                                 /usr/lib/gap.so", 0),
    mapping("7ffd5c9f1000-7ffd5c9f3000 r-xp 00000000 00:00 0                          [vdso]", 0),
    mapping("7f46c6c00000-7f46c6d00000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6", 0),
  ].join("\n");
  expect(programSpans(`${smaps}\n`)).toEqual([
    { address: 0x400000n, length: 0x800000 },
    { address: 0xc00000n, length: 0x1e00000 },
    { address: 0x7f46c6c00000n, length: 0x100000 },
  ]);
  expect(programSpans("")).toEqual([]);
});

test("most of Node's mapped pages are let go, by a thread that is not alone, and all goes on", () => {
  const pages = new URL("./program-pages.ts", import.meta.url).href;
  const program = `
    import { readFileSync } from "node:fs";
    import { Worker } from "node:worker_threads";
    import { releaseProgramPages } from ${JSON.stringify(pages)};
    const mapped = () => Number(/RssFile:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
    const busy = "import { parentPort as p } from 'node:worker_threads'; let n = 0;" +
      "setInterval(() => p.postMessage(JSON.parse(JSON.stringify({ n: n++ })).n), 1);";
    const worker = new Worker(busy, { eval: true });
    let last = 0;
    worker.on("message", (n) => { last = n; });
    await new Promise((resolve) => worker.once("message", resolve));
    await releaseProgramPages();
    const before = mapped();
    const seen = last;
    for (let i = 0; i < 50; i++) await releaseProgramPages();
    await new Promise((resolve) => setTimeout(resolve, 100));
    console.log(JSON.stringify({ before, goesOn: last > seen, sorted: ["b", "a"].toSorted().join("") }));
    process.exit(0);
  `;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    timeout: 30_000,
    encoding: "utf8",
  });
  const { before, ...rest } = JSON.parse(output) as { before: number };
  expect(rest).toEqual({ goesOn: true, sorted: "ab" });
  // kB; 55 MB without it.
  expect(before).toBeLessThan(30_000);
});
