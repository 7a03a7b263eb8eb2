import type { Block } from './guide.ts'

/** Blocks that are not run with the guides, by page: how they begin, and why. */
const EXCEPTIONS: Readonly<Record<string, readonly (readonly [begins: string, why: string])[]>> = {
  'README.md': [
    ['npm start', 'brings up a stack of its own and stays'],
    ['npm test', 'runs this very test'],
  ],
  'CONTRIBUTING.md': [['', 'changes the clone, and runs this very test']],
  'deploy/docs/providers.md': [
    ['export HTTP_PROVIDERS=',
      'its settings are tried with a vendor by test/guide/providers.test.ts'],
    ['export VENDOR_BOUNCER_KEY=',
      'needs an account of a vendor; test/integration/verify/batches.test.ts has a double of it'],
    ['{\n  "id": 2', 'is no command; test/guide/providers.test.ts reads the description'],
    ['[{', 'is no command; test/guide/providers.test.ts reads it'],
  ],
  'deploy/docs/mailboxes.md': [
    ['[', 'is no command; test/guide/mailboxes.test.ts reads the setting'],
  ],
  'deploy/docs/results.md': [
    ['id: 1.2.2.0', 'needs a running job: test/e2e/provisional.test.ts reads such a stream'],
  ],
  'deploy/docs/dead-letters.md': [
    ['npm run admin -- dead show verify',
      'needs a dead letter: test/integration/dead.test.ts has some'],
  ],
  'deploy/docs/recovery.md': [
    ['export BACKUP_TO=', 'test/integration/backup.test.ts runs it on a file'],
    ['RESTORE DATABASE', 'test/integration/backup.test.ts runs it on a file'],
    ['npm run drill', 'starts its own stacks: the suite all-faults of npm run test:full runs it'],
  ],
  'deploy/docs/dependencies.md': [
    ['npm run lists', 'asks the registry: test/unit/deploy/email-lists.test.ts gives it packages'],
    ['{\n  "renewedAt"',
      'is part of a folder; test/unit/jobs/lists-folder.test.ts reads such a one'],
  ],
  'deploy/docs/deployment.md': [
    ['npm run lists', 'needs a cluster; test/deploy/chart.test.ts renders what mounts the lists'],
    ['docker build', 'needs a container engine'],
    ['node deploy/secrets.ts', 'needs a container engine, and writes secrets into the clone'],
    ['kubectl', 'needs a cluster: test/api-server/api-server.test.ts has one'],
    ['helm', 'needs a cluster: test/api-server/api-server.test.ts has one'],
    ['KAFKA_BOOTSTRAP_SERVERS=', 'needs managed brokers'],
    ['VERSION=', 'needs a published release'],
    ['gh release download', 'needs a published release'],
    ['CREATE DATABASE', 'is for administrators; test/integration/clickhouse-users.test.ts has it'],
    ['GRANT CLUSTER', 'needs a ClickHouse cluster'],
  ],
  'deploy/docs/keys.md': [
    ['npm run admin -- job erase',
      'waits for compaction, up to half an hour: test/e2e/erasure.test.ts makes it short'],
    ['npm run admin -- org erase',
      'leaves nothing for other guides: test/e2e/erase-organization.test.ts erases one'],
    ['"RESULTS_ROOT_KEYS"',
      'is part of a file; test/unit/runtime/platform/command-environment.test.ts reads one'],
    ['npm run down',
      'ends the stack: test/unit/deploy/local/supervisor.test.ts starts one after an edit'],
  ],
  'deploy/docs/people.md': [
    ['npm run oidc',
      'restarts the stack of other guides: test/e2e/sign-in.test.ts uses this provider'],
    ['npm run down\nexport OIDC_ISSUER',
      'restarts the stack of other guides: test/e2e/sign-in.test.ts uses this provider'],
  ],
  'deploy/docs/webhooks.md': [
    ['import { createPublicKey',
      'is no command; test/guide/webhook-receivers.test.ts runs it with signed events'],
    ['import base64',
      'is no command; test/guide/webhook-receivers.test.ts runs it with signed events'],
    ['func isGenuine',
      'is no command; test/guide/webhook-receivers.test.ts runs it with signed events'],
  ],
  'deploy/docs/root-keys.md': [
    ['{', 'is a policy; test/integration/root-keys/aws-kms.test.ts attaches it'],
    ['path "transit', 'is a policy; test/integration/root-keys/vault.test.ts checks by it'],
    ['rootKeys:',
      'are values of the chart; test/deploy/chart-root-keys.test.ts renders it with them'],
  ],
  'deploy/docs/money.md': [
    ['{"version":1,"at"',
      'is no command; test/unit/money/journal-heads.test.ts reads such a document'],
    ['npm run admin -- audit --journal-head',
      'needs an exported file: test/integration/journal-heads.test.ts has one'],
  ],
  'deploy/docs/scaling.md': [
    ['TOPIC_PARTITIONS=',
      'changes the topics of other tests: test/e2e/partitions.test.ts adds partitions'],
    ['redis-cli --cluster reshard', 'needs a cluster as state: test/e2e/cells.test.ts has one'],
    ['redis-cli -h HOST', 'needs a cluster as state: test/e2e/cells.test.ts has one'],
  ],
  'deploy/docs/clients.md': [
    ['npm run package',
      'installs for the account: test/e2e/clients/package.test.ts installs into a folder'],
    ['curl -o openapi.json', 'needs a generator: test/e2e/clients/generated.test.ts has one'],
    ['import os, uuid', 'needs a generated client: test/e2e/clients/generated.test.ts has one'],
    ['configuration :=', 'needs a generated client: test/e2e/clients/generated.test.ts has one'],
    ['{\n  "mcpServers"', 'needs a host: test/e2e/mcp.test.ts is one'],
    ['claude mcp add', 'needs a host: test/e2e/mcp.test.ts is one'],
  ],
}

export const NOT_RUN = Object.entries(EXCEPTIONS).flatMap(([page, blocks]) =>
  blocks.map(([begins, why]) => ({ page, begins, why })))

/** Pages whose blocks are run one after another, as a reader does. */
export const RUN_PAGES: readonly string[] = [
  'README.md',
  ...[
    'access-log', 'clients', 'dead-letters', 'dependencies', 'deployment', 'feeds', 'files',
    'idempotency', 'keys', 'money', 'people', 'recovery', 'results', 'submit', 'usage',
    'verify-now', 'webhooks', 'workspace-page',
  ].map(name => `deploy/docs/${name}.md`),
]

/** Pages whose commands connect to every store, which takes seconds for each; run in CI. */
export const OPERATOR_PAGES: readonly string[] = [
  'access-log', 'dead-letters', 'feeds', 'keys', 'people', 'recovery', 'workspace-page',
].map(name => `deploy/docs/${name}.md`)

/** Languages of blocks that contain no commands. */
const SHOWN: readonly string[] = ['mermaid', 'text']

/** No test of pages may begin these: they would touch what is not theirs. */
const FOREIGN = /^\s*(sudo|docker|kubectl|helm|npm (start|test|run (up|down))) ?/m

export const isException = ({ page, content }: Block): boolean =>
  NOT_RUN.some(one => one.page === page && content.startsWith(one.begins))

/** What is wrong with a block that is neither run nor an exception, if anything is. */
export function faultOf (block: Block): string | undefined {
  const { page, line, language, content } = block
  if (SHOWN.includes(language) || isException(block)) return undefined
  const place = `${page}:${line}`
  if (!['sh', 'ts'].includes(language)) {
    return `${place}: a block of "${language}" is not run. Write sh, ts or text behind the ` +
      'fence, or name the block in NOT_RUN of test/support/guides/exceptions.ts.'
  }
  if (!RUN_PAGES.includes(page)) {
    return `${place}: the page is not run. Add it to RUN_PAGES of ` +
      'test/support/guides/exceptions.ts, or the block to NOT_RUN with a reason.'
  }
  if (language === 'sh' && FOREIGN.test(content)) {
    return `${place}: this starts or ends what is not the test's. Name it in NOT_RUN of ` +
      'test/support/guides/exceptions.ts with a reason.'
  }
  return undefined
}
