import type { Instant } from "../core/instant.ts";

export type Alarm = { readonly key: string; readonly at: Instant };

/** Alarms, the earliest first: a binary heap. */
export class AlarmHeap {
  readonly #alarms: Alarm[] = [];

  get first(): Alarm | undefined {
    return this.#alarms[0];
  }

  push(alarm: Alarm): void {
    const alarms = this.#alarms;
    let place = alarms.push(alarm) - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = alarms[parent] as Alarm;
      if (above.at <= alarm.at) break;
      alarms[place] = above;
      place = parent;
    }
    alarms[place] = alarm;
  }

  pop(): Alarm | undefined {
    const alarms = this.#alarms;
    const first = alarms[0];
    const last = alarms.pop();
    if (last === undefined || alarms.length === 0) return first;
    let place = 0;
    for (;;) {
      const left = 2 * place + 1;
      if (left >= alarms.length) break;
      const right = left + 1;
      const child = right < alarms.length && at(alarms, right) < at(alarms, left) ? right : left;
      if (at(alarms, child) >= last.at) break;
      alarms[place] = alarms[child] as Alarm;
      place = child;
    }
    alarms[place] = last;
    return first;
  }
}

/** The place is inside: the callers have just compared it with the length. */
const at = (alarms: readonly Alarm[], place: number): Instant => (alarms[place] as Alarm).at;
