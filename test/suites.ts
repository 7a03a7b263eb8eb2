import type { ToolName } from './runner/tools.ts'

/**
 * `fast` is `npm test`: what a change can break, in five minutes on two idle cores. `ci` is what
 * `npm test -- --ci` adds with the same tools, as `.ci/run` does: attacks, faults, deployment
 * files, and other tests that take long. `full` is what `npm run test:full` adds to both: foreign
 * tools, long runs, every fault.
 */
export const TIERS = ['fast', 'ci', 'full'] as const
export type Tier = typeof TIERS[number]

type Needs = {
  /** Tools it needs besides what the README asks for; without one of them it is skipped. */
  readonly tools?: readonly ToolName[]
  /** What `npm run test:full` asks of a suite of an earlier tier beyond that. */
  readonly fullEnv?: Readonly<Record<string, string>>
}
type TestFiles = {
  readonly files: readonly string[]
  readonly without?: readonly string[]
  /** Its files run on the stack of their worker. */
  readonly stack?: boolean
}

export type Suite = Needs & {
  readonly name: string
  readonly tier: Tier
  /** What it takes on two idle cores; a longer run is a warning, never a failure. */
  readonly expectedSeconds: number
} & (
  /** A program whose exit code is one passed or failed check. */
  | { readonly kind: 'program', readonly command: readonly string[] }
  /**
   * Test files for Vitest. Suites of a later stage run after all of the earlier ones; those of one
   * stage follow each other in the order of this list, and no worker waits between them. On few
   * cores stage 1 is part of stage 2.
   */
  | TestFiles & { readonly kind: 'vitest', readonly stage: number }
)

const program = (
  name: string, tier: Tier, expectedSeconds: number, command: readonly string[], needs?: Needs,
): Suite => ({ name, kind: 'program', tier, expectedSeconds, command, ...needs })

const vitest = (
  name: string, tier: Tier, stage: number, expectedSeconds: number, rest: TestFiles & Needs,
): Suite => ({ name, kind: 'vitest', tier, stage, expectedSeconds, ...rest })

/** Checks of deployment files that need no foreign tool. */
const DEPLOY = ['test/deploy/compose.test.ts', 'test/deploy/dockerfile.test.ts']
/** Tests of the tier `ci`: of what the tests of `npm test` cover in part, and each takes long. */
const THOROUGH = [
  'test/e2e/ops.test.ts', 'test/integration/recovery.test.ts', 'test/e2e/feeds.test.ts',
  'test/e2e/rotation.test.ts', 'test/e2e/secrecy.test.ts', 'test/e2e/erase-organization.test.ts',
  'test/e2e/erase-busy-organization.test.ts', 'test/integration/key-classes.test.ts',
  'test/integration/dead.test.ts', 'test/integration/secure-connections.test.ts',
  'test/e2e/overload.test.ts', 'test/e2e/email-domains.test.ts', 'test/e2e/replay.test.ts',
  'test/e2e/mailbox-waiting.test.ts', 'test/e2e/empty-state.test.ts',
  'test/e2e/access-log.test.ts', 'test/e2e/erasure.test.ts', 'test/e2e/credentials.test.ts',
  'test/e2e/bad-input/full-size.test.ts', 'test/integration/access-log.test.ts',
  'test/integration/topic-prefix.test.ts',
  'test/integration/missing-organization-keys.test.ts',
  'test/integration/bus-faults-groups.test.ts', 'test/integration/bus-faults-reading.test.ts',
  'test/integration/bus-faults-sending.test.ts', 'test/integration/shared-feeds.test.ts',
  'test/integration/journal-heads.test.ts', 'test/integration/job-key-copy.test.ts',
]
/** Tests of what hardly any change can break alone, each of which takes very long. */
const LONG = [
  'test/e2e/failover.test.ts', 'test/e2e/memory.test.ts', 'test/attacks/hostile-broker.test.ts',
  'test/attacks/deletions.test.ts', 'test/e2e/vendor-crash.test.ts', 'test/e2e/cells.test.ts',
  'test/e2e/partitions.test.ts', 'test/e2e/hosts.test.ts', 'test/e2e/upgrade.test.ts',
  'test/e2e/secure/secure.test.ts', 'test/e2e/webhook-isolation.test.ts',
]
/**
 * Files that take longest: started last, one would keep a single worker busy at the end. Some that
 * share no services with others are among them, so that they come before a worker starts any.
 */
export const LONGEST = [
  'test/e2e/contract/contract.test.ts',
  'test/e2e/secrecy.test.ts', 'test/e2e/rotation.test.ts', 'test/e2e/ops.test.ts',
  'test/e2e/guides.test.ts', 'test/e2e/submit.test.ts',
  'test/e2e/bad-input/bad-input.test.ts', 'test/integration/recovery.test.ts',
  'test/attacks/forged-messages.test.ts', 'test/attacks/forged-records.test.ts',
  'test/e2e/audit.test.ts', 'test/e2e/one-row-job.test.ts',
]
const BROWSER = [
  'test/e2e/page.test.ts', 'test/e2e/lists-page.test.ts', 'test/e2e/sign-in-page.test.ts',
  'test/e2e/journeys-page.test.ts', 'test/e2e/reference-page.test.ts',
]
const SCHEMATHESIS = ['test/e2e/schemathesis.test.ts']
const AWS_KMS = ['test/integration/root-keys/aws-kms.test.ts']
const BACKUP_S3 = ['test/integration/backup-s3.test.ts']
const READERS = ['test/integration/result-readers/readers.test.ts']
const VAULT = ['test/integration/root-keys/vault.test.ts']
/** The package, and clients generated from the description of the interface. */
const CLIENTS = ['test/e2e/clients/package.test.ts', 'test/e2e/clients/generated.test.ts']

/** Real mail servers beside scripted ones. */
const MAILBOXES = ['test/accuracy/servers/mailboxes.test.ts']

/** Every suite, the cheapest first, so that a slip shows within seconds. */
export const SUITES: readonly Suite[] = [
  // All that the compiler reports, with the options of tsconfig.json, and floating promises: in a
  // pipeline an effect that may not have happened when the offset moves.
  program('types', 'fast', 45,
    ['oxlint', '-c', 'test/oxlint.json', '--type-aware', '--type-check', '.']),
  program('lint', 'fast', 25, [
    'oxlint', '-c', 'test/oxlint-style.json', '--deny-warnings',
    '--report-unused-disable-directives', '--ignore-pattern', 'schemas/types.ts', '.',
  ]),
  // Files, exports and dependencies that nothing uses, or only tests.
  program('unused', 'fast', 10, ['node', 'test/knip.ts']),
  program('audit', 'fast', 30, ['node', 'test/audit.ts']),
  vitest('unit', 'fast', 1, 60, {
    files: ['test/unit/**/*.test.ts', 'test/*.test.ts', 'test/guide/*.test.ts'],
  }),
  vitest('deploy', 'ci', 1, 60, { files: DEPLOY }),
  vitest('simulation', 'fast', 1, 60, {
    files: ['test/simulation/**/*.test.ts'], fullEnv: { SIMULATION_SEEDS: '10000' },
  }),
  vitest('properties', 'fast', 1, 75, { files: ['test/properties/**/*.test.ts'] }),
  vitest('accuracy', 'fast', 1, 20, {
    files: ['test/accuracy/**/*.test.ts'],
    without: MAILBOXES,
    fullEnv: { ACCURACY_NUMBERS: '7100' },
  }),
  vitest('integration', 'fast', 2, 90, {
    stack: true,
    files: ['test/integration/**/*.test.ts'],
    without: [...LONG, ...THOROUGH, ...AWS_KMS, ...BACKUP_S3, ...VAULT, ...READERS],
  }),
  vitest('faults', 'ci', 2, 120, { files: ['test/faults/**/*.test.ts'] }),
  vitest('attacks', 'ci', 2, 180, {
    stack: true,
    files: ['test/attacks/**/*.test.ts'],
    without: LONG,
    fullEnv: { FUZZ_CASES: '100000' },
  }),
  vitest('e2e', 'fast', 2, 180, {
    stack: true,
    files: ['test/e2e/**/*.test.ts'],
    without: [...BROWSER, ...SCHEMATHESIS, ...CLIENTS, ...LONG, ...THOROUGH],
    fullEnv: { DOWNLOADED_ROWS: '100000' },
  }),
  vitest('thorough', 'ci', 2, 360, {
    stack: true, files: THOROUGH, fullEnv: { FEED_CONTACTS: '250000' },
  }),
  vitest('long', 'full', 3, 180, { stack: true, files: LONG, fullEnv: { FORGERIES: '1000' } }),
  vitest('mailboxes', 'full', 4, 90, { files: MAILBOXES, tools: ['mail-servers'] }),
  vitest('aws-kms', 'full', 4, 10, { files: AWS_KMS, tools: ['moto'] }),
  vitest('backup-s3', 'full', 4, 30, { stack: true, files: BACKUP_S3, tools: ['moto'] }),
  vitest('vault', 'full', 4, 10, { files: VAULT, tools: ['vault-transit'] }),
  // Result files in DuckDB, pandas and openpyxl.
  vitest('result-readers', 'full', 4, 10, { files: READERS, tools: ['result-readers'] }),
  vitest('chart', 'full', 4, 180, {
    files: ['test/deploy/**/*.test.ts'],
    without: DEPLOY,
    tools: ['helm', 'compose', 'actionlint', 'validator', 'prometheus'],
  }),
  // The chart by Helm on an API server, where kwok plays the nodes.
  vitest('api-server', 'full', 4, 180, {
    files: ['test/api-server/**/*.test.ts'], tools: ['control-plane', 'helm', 'definitions'],
  }),
  vitest('page', 'full', 5, 120, { stack: true, files: BROWSER, tools: ['chromium'] }),
  vitest('schemathesis', 'full', 5, 900, {
    stack: true,
    files: SCHEMATHESIS,
    tools: ['schemathesis'],
    fullEnv: { SCHEMATHESIS_SEEDS: '20' },
  }),
  vitest('clients', 'full', 5, 240, {
    stack: true, files: CLIENTS, tools: ['openapi-generator', 'client-python', 'client-go'],
  }),
  vitest('traces', 'full', 5, 60, {
    stack: true, files: ['test/monitoring/traces.test.ts'], tools: ['collector'],
  }),
  vitest('monitoring', 'full', 6, 900, {
    stack: true,
    files: ['test/monitoring/**/*.test.ts'],
    without: ['test/monitoring/traces.test.ts'],
    tools: ['prometheus'],
  }),
  vitest('containers', 'full', 7, 400, {
    files: ['test/containers/**/*.test.ts'], tools: ['container-engine'],
  }),
  // The chart by Helm on a node, in whose pods everything runs.
  vitest('pods', 'full', 8, 600, {
    files: ['test/pods/**/*.test.ts'], tools: ['control-plane', 'helm', 'container-engine'],
  }),
  program('all-faults', 'full', 3_600, ['node', 'test/faults/main.ts'], { tools: ['toxiproxy'] }),
]
