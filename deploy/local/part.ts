import type { Access } from './access.ts'
import type { Say } from './parts.ts'
import type { PortBook } from './ports.ts'

/** What every part of the embedded stack is made from. */
export type PartOptions = {
  readonly dataDir: string
  readonly ports: PortBook
  readonly say: Say
  /** Of a stack with TLS and passwords; everybody of this machine is let in without it. */
  readonly access?: Access | undefined
}
