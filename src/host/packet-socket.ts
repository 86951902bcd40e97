import {
  AF_PACKET,
  attachFilter,
  type BpfInstruction,
  bind,
  close,
  EAGAIN,
  EINTR,
  makeReceiver,
  orThrow,
  type Receiver,
  SO_RCVBUFFORCE,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_RAW,
  SOL_PACKET,
  SOL_SOCKET,
  send,
  setsockopt,
  socket,
  type Watch,
  watchReadable,
} from "./sysnet.ts";

export type PacketProtocol = "ARP" | "NDP";

export type PacketSocketOptions = {
  /** Index of the interface. */
  readonly interface: number;
  readonly protocol: PacketProtocol;
  /** A whole Ethernet frame for this station or a group; the bytes are valid until it returns. */
  readonly onFrame: (frame: Uint8Array) => void;
  /** A frame that was dropped here: another station's, our own, or one of a VLAN. */
  readonly onDropped: (reason: "otherHost" | "ownFrame" | "vlanTagged") => void;
  readonly onTrouble: (trouble: unknown) => void;
};

const ETHERTYPE: Record<PacketProtocol, number> = { ARP: 0x0806, NDP: 0x86dd };
const PACKET_AUXDATA = 8;
const PACKET_OTHERHOST = 3;
const PACKET_LOOPBACK = 5;
const PACKET_OUTGOING = 4;
/** linux/if_packet.h: tp_vlan_tci of struct tpacket_auxdata is valid. */
const TP_STATUS_VLAN_VALID = 0x10;
const VLAN_ID_MASK = 0xfff;
const FRAME_BYTES = 2048;
const CONTROL_BYTES = 64;
/** 208 kB, the default, overflow in 0.1 s of a busy moment at 5,000 requests/s (measured). */
const RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024;
/** Frames that are taken before other work of the thread gets a turn. */
const TURN = 64;
/** More than the receive buffer can hold: a bound for the flood that comes faster than it is read. */
const QUEUE = 16_384;

const ACCEPT: BpfInstruction = [0x06, 0, 0, 0x40000];
const REFUSE: BpfInstruction = [0x06, 0, 0, 0];
const LOAD_HALF = 0x28;
const LOAD_BYTE = 0x30;
const JUMP_EQUAL = 0x15;

/**
 * What the kernel passes up. ARP whole: its refusals are counted by reason. Of IPv6 only neighbour solicitations and
 * advertisements that can't have crossed a router (hop limit 255), since all other IPv6 traffic passes here too.
 */
const FILTER: Record<PacketProtocol, readonly BpfInstruction[]> = {
  ARP: [[LOAD_HALF, 0, 0, 12], [JUMP_EQUAL, 0, 1, ETHERTYPE.ARP], ACCEPT, REFUSE],
  NDP: [
    [LOAD_HALF, 0, 0, 12],
    [JUMP_EQUAL, 0, 8, ETHERTYPE.NDP],
    [LOAD_BYTE, 0, 0, 20],
    [JUMP_EQUAL, 0, 6, 58],
    [LOAD_BYTE, 0, 0, 21],
    [JUMP_EQUAL, 0, 4, 255],
    [LOAD_BYTE, 0, 0, 54],
    [JUMP_EQUAL, 1, 0, 135],
    [JUMP_EQUAL, 0, 1, 136],
    ACCEPT,
    REFUSE,
  ],
};

/**
 * An AF_PACKET socket of one protocol on one interface. Bound to its protocol, it sees what the interface itself
 * receives: nothing that we send, nothing of a bridge port that belongs to the bridge. Needs CAP_NET_RAW.
 */
export class PacketSocket {
  readonly #fd: number;
  readonly #options: PacketSocketOptions;
  readonly #receiver: Receiver;
  readonly #watch: Watch;
  #closed = false;

  /** Throws SystemError: EPERM without CAP_NET_RAW, ENODEV for an interface that is gone. */
  constructor(options: PacketSocketOptions) {
    this.#options = options;
    // Protocol 0: nothing is queued before the filter is on.
    this.#fd = orThrow("packet socket", socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    try {
      orThrow("packet filter", attachFilter(this.#fd, FILTER[options.protocol]));
      orThrow("auxiliary data of a packet socket", setsockopt(this.#fd, SOL_PACKET, PACKET_AUXDATA, 1));
      // Refused without CAP_NET_ADMIN; the default buffer then has to do.
      setsockopt(this.#fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES);
      orThrow("bind of a packet socket", bind(this.#fd, linkAddress(options)));
      this.#receiver = makeReceiver(this.#fd, FRAME_BYTES, CONTROL_BYTES);
      this.#watch = watchReadable(this.#fd, () => this.#take(TURN), options.onTrouble);
    } catch (trouble) {
      close(this.#fd);
      throw trouble;
    }
  }

  /** Sends one whole frame; false when the kernel refused it (interface down, queue full). */
  send(frame: Uint8Array): boolean {
    return !this.#closed && send(this.#fd, frame) === frame.length;
  }

  /** Takes everything that is queued by now. */
  drain(): void {
    this.#take(QUEUE);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    close(this.#fd);
  }

  #take(most: number): void {
    for (let taken = 0; taken < most && !this.#closed; taken++) {
      const length = this.#receiver.receive();
      if (length === -EINTR) continue;
      // ENETDOWN comes once when the interface goes down; the link observer tells that better.
      if (length < 0) {
        if (length === -EAGAIN) return;
        continue;
      }
      const dropped = this.#dropReason();
      if (dropped !== undefined) this.#options.onDropped(dropped);
      else this.#options.onFrame(this.#receiver.data.subarray(0, length));
    }
  }

  /** struct sockaddr_ll has the packet type at 10; RFC 826 says nothing of VLANs, the tag is stripped and told apart. */
  #dropReason(): "otherHost" | "ownFrame" | "vlanTagged" | undefined {
    if (this.#vlanId() !== 0) return "vlanTagged";
    switch (this.#receiver.name[10]) {
      case PACKET_OTHERHOST:
        return "otherHost";
      case PACKET_OUTGOING:
      case PACKET_LOOPBACK:
        return "ownFrame";
      default:
        return undefined;
    }
  }

  /** 0 for an untagged frame and for a priority tag, which is answered like one. */
  #vlanId(): number {
    const { control } = this.#receiver;
    const length = this.#receiver.controlLength();
    const view = new DataView(control.buffer, control.byteOffset, Math.min(length, control.length));
    // cmsghdr: u64 length, i32 level, i32 type; tpacket_auxdata: u32 status first, u16 tci at 16.
    if (view.byteLength < 36 || view.getInt32(8, true) !== SOL_PACKET || view.getInt32(12, true) !== PACKET_AUXDATA) {
      return 0;
    }
    const valid = (view.getUint32(16, true) & TP_STATUS_VLAN_VALID) !== 0;
    return valid ? view.getUint16(32, true) & VLAN_ID_MASK : 0;
  }
}

/** struct sockaddr_ll: u16 family, be16 protocol, i32 index, u16 hardware type, u8 packet type, u8 length, address[8]. */
function linkAddress(options: PacketSocketOptions): Uint8Array {
  const view = new DataView(new ArrayBuffer(20));
  view.setUint16(0, AF_PACKET, true);
  view.setUint16(2, ETHERTYPE[options.protocol], false);
  view.setInt32(4, options.interface, true);
  return new Uint8Array(view.buffer);
}
