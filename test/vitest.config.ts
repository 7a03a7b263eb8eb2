import { availableParallelism } from 'node:os'
import { relative } from 'node:path'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { LONGEST, SUITES, type Suite } from './suites.ts'

const root = `${import.meta.dirname}/..`
const isFull = process.env.TEST_TIER === 'full'
const support = (name: string) => `${import.meta.dirname}/support/stacks/${name}`

/** Far beyond what a single event takes on a busy machine. */
const MAX_POLL_MS = 240_000
/** From this stage on files start brokers and services, which takes memory for each worker. */
const FIRST_STACK_STAGE = 2
/**
 * A worker has a stack and services of its own, and waits for their restarts and rebalances: a
 * third one works meanwhile on two cores. With more than four memory runs short.
 */
const STACKS = { min: 3, max: 4 }
const stacks = Math.max(STACKS.min, Math.min(availableParallelism(), STACKS.max))
/**
 * With no more cores than that the first two stages are one: a stack starts, which is mostly
 * waiting, while the last files without one still run.
 */
const isOneStage = availableParallelism() <= stacks

function project (suite: Suite): readonly TestProjectInlineConfiguration[] {
  if (suite.kind !== 'vitest') return []
  const stage = isOneStage ? Math.max(suite.stage, FIRST_STACK_STAGE) : suite.stage
  return [{
    test: {
      name: suite.name,
      root,
      include: [...suite.files],
      exclude: [...suite.without ?? []],
      environment: 'node',
      env: isFull ? { ...suite.fullEnv } : {},
      // Files of a worker share modules, which saves a third of the time, and its services.
      isolate: false,
      // Suites of one stage have to agree; those with stacks begin with the second.
      maxWorkers: stage >= FIRST_STACK_STAGE ? stacks : '100%',
      sequence: { groupOrder: stage },
      // No limits: a run in which no test ends for minutes is stopped, with what it waits for.
      testTimeout: 0,
      hookTimeout: 0,
      expect: { poll: { timeout: MAX_POLL_MS, interval: 20 } },
      ...suite.stack
        ? { globalSetup: support('setup.ts'), setupFiles: [support('worker.ts')] }
        : {},
    },
  }]
}

/** Takes suites in their order, and of each the files that take longest first, as known here. */
class LongestFirst extends BaseSequencer {
  override async sort (files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ project, moduleId }: TestSpecification) => {
      const place = LONGEST.indexOf(relative(project.config.root, moduleId))
      return place === -1 ? LONGEST.length : place
    }
    const suiteOf = ({ project }: TestSpecification) =>
      SUITES.findIndex(({ name }) => name === project.name)
    return (await super.sort(files))
      .toSorted((a, b) => suiteOf(a) - suiteOf(b) || rankOf(a) - rankOf(b))
  }
}

export default defineConfig({
  test: {
    root, retry: 0, sequence: { sequencer: LongestFirst }, projects: SUITES.flatMap(project),
  },
})
