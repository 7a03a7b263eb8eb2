import type { Say } from './parts.ts'
import type { PortBook } from './ports.ts'

/** What every part of the embedded stack is made from. */
export type PartOptions = {
  readonly dataDir: string
  readonly ports: PortBook
  readonly say: Say
}
