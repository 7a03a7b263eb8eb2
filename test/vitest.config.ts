import { defineConfig } from 'vitest/config'

const root = `${import.meta.dirname}/..`

/** One project a kind of test; some need the running stack. */
const project = (name: string, include: string[], more: object = {}) =>
  ({ test: { name, root, include, environment: 'node', ...more } })

const redis = { globalSetup: `${import.meta.dirname}/support/redis.setup.ts` }

const stack = {
  globalSetup: `${import.meta.dirname}/support/stack.setup.ts`,
  testTimeout: 120_000,
  hookTimeout: 180_000,
  fileParallelism: false,
}

export default defineConfig({
  test: {
    root,
    retry: 0,
    // Vitest leaves one core idle otherwise, which is half of a small machine.
    maxWorkers: '100%',
    projects: [
      project('unit', ['test/unit/**/*.test.ts', 'test/*.test.ts', 'test/guide/*.test.ts'],
        { testTimeout: 30_000 }),
      project('laws', ['test/laws/**/*.test.ts'], { ...redis, testTimeout: 60_000 }),
      project('simulation', ['test/simulation/**/*.test.ts'], { ...redis, testTimeout: 900_000 }),
      project('deploy', ['test/deploy/**/*.test.ts'], {
        globalSetup: `${import.meta.dirname}/deploy/tools.setup.ts`,
        testTimeout: 120_000,
        hookTimeout: 300_000,
      }),
      project('integration', ['test/integration/**/*.test.ts'], stack),
      project('e2e', ['test/e2e/**/*.test.ts'], stack),
      project('monitoring', ['test/monitoring/**/*.test.ts'], stack),
      project('faults', ['test/faults/**/*.test.ts'],
        { testTimeout: 300_000, hookTimeout: 60_000 }),
    ],
  },
})
