/**
 * The controller's own tests once more, on a real API server, with its own account and rights. One server serves all of
 * them: it is started by the first and emptied after each.
 */
import { describe } from "vitest";
import "../../controller/backend.fixture.ts";

describe("thin", () => import("../../controller/thin.integration.test.ts").then(() => {}));
describe("dual stack", () => import("../../controller/dual-stack.integration.test.ts").then(() => {}));
describe("life", () => import("../../controller/life.integration.test.ts").then(() => {}));
describe("restart", () => import("../../controller/restart.integration.test.ts").then(() => {}));
