import type { ClientLog } from './client-log.ts'
import type { Load, LoadPlan } from './load.ts'
import type { Receiver } from './receiver.ts'
import type { FaultStack } from './stack.ts'
import type { Environment, EnvironmentOptions } from './environment.ts'

/** What breaks. */
type FaultKind =
  'process' | 'broker' | 'store' | 'link' | 'outside' | 'clock' | 'disk' | 'cluster'

/** What a fault acts on, while the load runs. */
export type Scene = {
  readonly environment: Environment
  readonly load: Load
  /** Every answer the service gave to the load's clients. */
  readonly log: ClientLog
  readonly receiver: Receiver
  /** The organization whose jobs these are; its tenant is that of live mode. */
  readonly orgId: string
  /** Numbers from 0 to below 1 that follow from the seed. */
  readonly random: () => number
  readonly seed: number
  /** False in the quick run of CI, where less of everything is enough. */
  readonly full: boolean
  /** Prints progress. */
  readonly say: (line: string) => void
}

/** What was done, and how long it took until work went on each time. */
export type Injected = {
  readonly injected: number
  readonly recoveryMs?: readonly number[]
  /** Printed in the table, beside what held. */
  readonly note?: string
  /** What the fault itself saw break, beyond what the oracle checks. */
  readonly breaches?: readonly string[]
}

/** Something a fault put between services and stack. */
export type Preparation = EnvironmentOptions & { readonly close?: () => Promise<void> }

/** One kind of failure, and how to inject it. */
export type Fault = {
  readonly name: string
  readonly kind: FaultKind
  /** One line for `--list`. */
  readonly about: string
  /** Part of the quick run of CI too. */
  readonly quick?: true
  /** The limit of each recovery; unlimited by default. */
  readonly recoverWithinMs?: number
  readonly load?: Partial<LoadPlan>
  /** Instances by stage of the services that faults share; 1 when left out. */
  readonly scale?: (full: boolean) => Readonly<Record<string, number>>
  /** Why it can't be injected on this machine; undefined when it can. */
  readonly missing?: () => Promise<string | undefined>
  /** A stack of its own, which is closed afterwards; the shared one when left out. */
  readonly stack?: () => Promise<FaultStack>
  /** Proxies, doubles and settings the services need from their start. */
  readonly prepare?: (stack: FaultStack) => Promise<Preparation>
  readonly inject: (scene: Scene) => Promise<Injected>
}

/** The outcome of one fault. */
export type Outcome = Injected & {
  readonly fault: Fault
  readonly seed: number
  /** False for a run with less of everything. */
  readonly full: boolean
  readonly seconds: number
  readonly jobs: number
  readonly rows: number
  /** Answers by status, 0 for none at all. */
  readonly answers: Readonly<Record<number, number>>
  /** The invariants that were checked and held. */
  readonly held: readonly string[]
  readonly breaches: readonly string[]
  /** Why it was not injected. */
  readonly skipped?: string
}
