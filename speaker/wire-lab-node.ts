/** For lab tests: the real wire worker in a process of its own, spoken to over IPC. */
import { clock } from "../src/host/clock.ts";
import { createLog } from "../src/observe/log.ts";
import { startWire } from "./wire-host.ts";
import type { ToWire } from "./wire-protocol.ts";

const wire = startWire({ log: createLog({ name: "wire-lab", level: "info" }) });
wire.onMessage((message) => process.send?.({ ...message, at: clock.now() }));
process.on("message", (message: ToWire) => wire.send(message));
process.on("disconnect", () => void wire.close().then(() => process.exit(0)));
