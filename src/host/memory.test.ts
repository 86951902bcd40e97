import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

test("a collection frees the heap, and the thread goes on", () => {
  const memory = new URL("./memory.ts", import.meta.url).href;
  const program = `
    import { releaseMemory } from ${JSON.stringify(memory)};
    let garbage = Array.from({ length: 2e6 }, (_, n) => ({ n }));
    garbage = undefined;
    const before = process.memoryUsage().heapUsed;
    await releaseMemory();
    setTimeout(() => void releaseMemory(), 50);
    setTimeout(() => { console.log(process.memoryUsage().heapUsed < before / 2); process.exit(0); }, 300);
  `;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    timeout: 15_000,
    encoding: "utf8",
  });
  expect(output.trim()).toBe("true");
});
