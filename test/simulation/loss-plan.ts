import { createChaos, type Chaos } from './chaos.ts'

/** The content of the state Redis after a restart: all, an old file, or nothing. */
export type LossKind = 'restart' | 'old' | 'empty'

/** A loss that comes with a batch of commands, and the batch before which its file is written. */
export type Loss = { readonly kind: LossKind, readonly at: number, readonly snapshotAt: number }

/** Batches of commands, of which a run has some dozens: when a loss comes at the latest. */
const LATEST = [15, 50, 150] as const

/** The chance that plans the losses of a seed, and decides what each of them cuts off. */
export const chanceOf = (seed: number): Chaos => createChaos(seed ^ 0x1055)

/** The number of losses, one after another. */
export function planLosses (chaos: Chaos, number: number): readonly Loss[] {
  let at = 0
  return Array.from({ length: number }, () => {
    at += 1 + chaos.below(chaos.pick(LATEST))
    const kind = chaos.pick(['restart', 'old', 'old', 'empty', 'empty'] as const)
    return { kind, at, snapshotAt: 1 + chaos.below(at) }
  })
}
