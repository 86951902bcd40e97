/** `npm run check`: runs every check, then tells what failed. */
import { check } from "./checks.ts";

process.exitCode = (await check()).length === 0 ? 0 : 1;
