/** A resident whose socket always has something to read. */
import { AF_NETLINK, bind, recv, SOCK_NONBLOCK, SOCK_RAW, send, socket, watchReadable } from "../src/host/sysnet.ts";
import { serveActions } from "./resident-entry.ts";

/** rtnetlink: RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, struct ifinfomsg of zeroes. */
const DUMP = new Uint8Array(32);
new DataView(DUMP.buffer).setUint32(0, 32, true);
new DataView(DUMP.buffer).setUint16(4, 18, true);
new DataView(DUMP.buffer).setUint16(6, 0x301, true);

const actions = {
  spin() {
    for (let i = 0; i < 8; i++) {
      const fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0);
      const address = new Uint8Array(12);
      address[0] = AF_NETLINK;
      bind(fd, address);
      const buffer = new Uint8Array(65536);
      watchReadable(
        fd,
        () => {
          while (recv(fd, buffer) > 0);
          send(fd, DUMP);
        },
        () => undefined,
      );
      send(fd, DUMP);
    }
  },
};
export type SpinActions = typeof actions;
serveActions(actions);
