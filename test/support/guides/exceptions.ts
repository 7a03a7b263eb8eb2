import type { Block } from './guide.ts'

/** Blocks that are not run with the guides: where they stand, how they begin, and why. */
type Exception = { readonly page: string, readonly begins: string, readonly reason: string }

export const NOT_RUN: readonly Exception[] = [
  {
    page: 'README.md', begins: 'npm start', reason: 'brings up a stack of its own and stays',
  },
  {
    page: 'README.md', begins: 'npm test', reason: 'runs this very test',
  },
  {
    page: 'CONTRIBUTING.md', begins: '', reason: 'changes the clone, and runs this very test',
  },
  {
    page: 'deploy/docs/providers.md',
    begins: 'export HTTP_PROVIDERS=',
    reason: 'its settings are tried with a vendor by test/guide/providers.test.ts',
  },
  {
    page: 'deploy/docs/providers.md',
    begins: 'export VENDOR_BOUNCER_KEY=',
    reason: 'needs an account of a vendor; test/unit/verify/batches.test.ts has a double of it',
  },
  {
    page: 'deploy/docs/providers.md',
    begins: '{\n  "id": 2',
    reason: 'is no command; test/guide/providers.test.ts reads the description',
  },
  {
    page: 'deploy/docs/mailboxes.md',
    begins: '[',
    reason: 'is no command; test/guide/mailboxes.test.ts reads the setting',
  },
  {
    page: 'deploy/docs/results.md',
    begins: 'id: 1.2.2.0',
    reason: 'needs a running job: test/e2e/provisional.test.ts reads such a stream',
  },
  {
    page: 'deploy/docs/dead-letters.md',
    begins: 'npm run admin -- dead show verify',
    reason: 'needs a dead letter: test/integration/dead.test.ts has some',
  },
  {
    page: 'deploy/docs/recovery.md',
    begins: 'BACKUP DATABASE',
    reason: 'test/integration/backup.test.ts runs it on a file',
  },
  {
    page: 'deploy/docs/recovery.md',
    begins: 'RESTORE DATABASE',
    reason: 'test/integration/backup.test.ts runs it on a file',
  },
  {
    page: 'deploy/docs/dependencies.md',
    begins: 'npm run lists',
    reason: 'asks the registry: test/unit/deploy/email-lists.test.ts gives it packages',
  },
  {
    page: 'deploy/docs/dependencies.md',
    begins: '{\n  "renewedAt"',
    reason: 'is part of a folder; test/unit/jobs/lists-folder.test.ts reads such a one',
  },
  {
    page: 'deploy/docs/deployment.md',
    begins: 'npm run lists',
    reason: 'needs a cluster; test/deploy/chart.test.ts renders what mounts the lists',
  },
  {
    page: 'deploy/docs/keys.md',
    begins: 'npm run admin -- job erase',
    reason: 'waits for compaction, up to half an hour: test/e2e/erasure.test.ts makes it short',
  },
  {
    page: 'deploy/docs/keys.md',
    begins: 'npm run admin -- org erase',
    reason: 'leaves nothing for other guides: test/e2e/erase-organization.test.ts erases one',
  },
  {
    page: 'deploy/docs/keys.md',
    begins: '"RESULTS_ROOT_KEYS"',
    reason: 'is part of a file; test/unit/runtime/platform/command-environment.test.ts reads one',
  },
  {
    page: 'deploy/docs/keys.md',
    begins: 'npm run down',
    reason: 'ends the stack: test/unit/deploy/local/supervisor.test.ts starts one after an edit',
  },
  ...['npm run oidc', 'npm run down\nexport OIDC_ISSUER'].map(begins => ({
    page: 'deploy/docs/people.md',
    begins,
    reason: 'restarts the stack of other guides: test/e2e/sign-in.test.ts uses this provider',
  })),
  ...['import { createPublicKey', 'import base64', 'func isGenuine'].map(begins => ({
    page: 'deploy/docs/webhooks.md',
    begins,
    reason: 'is no command; test/guide/webhook-receivers.test.ts runs it with signed events',
  })),
  {
    page: 'deploy/docs/root-keys.md',
    begins: '{',
    reason: 'is a policy; test/integration/root-keys/aws-kms.test.ts attaches it',
  },
  {
    page: 'deploy/docs/root-keys.md',
    begins: 'path "transit',
    reason: 'is a policy; test/integration/root-keys/vault.test.ts checks by it',
  },
  {
    page: 'deploy/docs/root-keys.md',
    begins: 'rootKeys:',
    reason: 'are values of the chart; test/deploy/chart-root-keys.test.ts renders it with them',
  },
  {
    page: 'deploy/docs/money.md',
    begins: '{"version":1,"at"',
    reason: 'is no command; test/unit/money/journal-heads.test.ts reads such a document',
  },
  {
    page: 'deploy/docs/money.md',
    begins: 'npm run admin -- audit --journal-head',
    reason: 'needs an exported file: test/integration/journal-heads.test.ts has one',
  },
  {
    page: 'deploy/docs/scaling.md',
    begins: 'TOPIC_PARTITIONS=',
    reason: 'changes the topics of other tests: test/e2e/partitions.test.ts adds partitions',
  },
  ...['redis-cli --cluster reshard', 'redis-cli -h HOST'].map(begins => ({
    page: 'deploy/docs/scaling.md',
    begins,
    reason: 'needs a cluster as state: test/e2e/cells.test.ts has one',
  })),
  {
    page: 'deploy/docs/recovery.md',
    begins: 'npm run drill',
    reason: 'starts a stack of its own: the suite drill of npm run test:full runs it',
  },
  {
    page: 'deploy/docs/providers.md',
    begins: '[{',
    reason: 'is no command; test/guide/providers.test.ts reads it',
  },
  {
    page: 'deploy/docs/clients.md',
    begins: 'npm run package',
    reason: 'installs for the account: test/e2e/clients/package.test.ts installs into a folder',
  },
  {
    page: 'deploy/docs/clients.md',
    begins: 'curl -o openapi.json',
    reason: 'needs a generator: test/e2e/clients/generated.test.ts has one',
  },
  ...['import os, uuid', 'configuration :='].map(begins => ({
    page: 'deploy/docs/clients.md',
    begins,
    reason: 'needs a generated client: test/e2e/clients/generated.test.ts has one',
  })),
  ...['{\n  "mcpServers"', 'claude mcp add'].map(begins => ({
    page: 'deploy/docs/clients.md', begins, reason: 'needs a host: test/e2e/mcp.test.ts is one',
  })),
  { page: 'deploy/docs/deployment.md', begins: 'docker build', reason: 'needs a container engine' },
  {
    page: 'deploy/docs/deployment.md',
    begins: 'node deploy/secrets.ts',
    reason: 'needs a container engine, and writes secrets into the clone',
  },
  { page: 'deploy/docs/deployment.md', begins: 'kubectl', reason: 'needs a cluster' },
  {
    page: 'deploy/docs/deployment.md',
    begins: 'CREATE DATABASE',
    reason: 'needs a ClickHouse cluster',
  },
]

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
