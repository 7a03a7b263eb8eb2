import type { Binding } from '../runtime/crypto/seal.ts'
import type { KeyClass } from '../topology.ts'

/** What the key of an organization for one class has wrapped. */
export type WrappedPiece = {
  readonly class: KeyClass
  readonly bytes: Buffer
  readonly binding: Binding
}

/** A stored value that keys of an organization wrap, and how to replace it during a rotation. */
export type Wrapped = {
  readonly orgId: string
  /** Of a data key the parts of both classes, otherwise one. */
  readonly pieces: readonly [WrappedPiece, ...WrappedPiece[]]
  /** Replaces all pieces; false when the value was changed or removed in the meantime. */
  readonly replace: (fresh: readonly [Buffer, ...Buffer[]]) => Promise<boolean>
}
