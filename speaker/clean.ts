/**
 * `node speaker/clean.ts`: takes table inet belfry away from a node that Belfry leaves. A speaker never does it, so that
 * a restart drops nothing. It exits with 1 while a speaker lives on the node, since that owns the table.
 */
import { NETLINK_NETFILTER, openNetlink } from "../src/host/netlink-socket.ts";
import { MessageWriter } from "../src/netlink/message.ts";
import { beginBatch, endsBatch, faultOf, NFNL_SUBSYS_NFTABLES, refusalsOf } from "../src/netlink/nfnetlink.ts";
import { putTableDelete } from "../src/netlink/nftables.ts";
import { TABLE } from "../src/nft/ruleset.ts";

const EPERM = 1;
const ENOENT = 2;

const writer = new MessageWriter(256);
const batch = beginBatch(writer, NFNL_SUBSYS_NFTABLES, 1);
putTableDelete(batch, TABLE);
const sequences = batch.end();
const netlink = openNetlink({ protocol: NETLINK_NETFILTER });
const refusals = refusalsOf(await netlink.exchange(writer.bytes(), (reply) => endsBatch(reply, sequences)));

if (refusals.length === 0) leave(0, `table inet ${TABLE} is removed`);
if (refusals.every(({ errno }) => errno === ENOENT)) leave(0, `there is no table inet ${TABLE}`);
const owned = refusals.some(({ errno }) => errno === EPERM);
leave(1, `table inet ${TABLE} stays: ${owned ? "a speaker still runs on this node" : faultOf("", refusals).message}`);

function leave(code: number, line: string): never {
  process.stdout.write(`${line}\n`);
  process.exit(code);
}
