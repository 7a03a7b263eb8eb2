import { defineConfig } from 'vitest/config'

/** One file of tests, each of which runs with every mutant that it reaches. */
export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: [process.env.MUTATE_FILE ?? ''],
    runner: `${import.meta.dirname}/repeat-runner.ts`,
    environment: 'node',
    isolate: false,
    maxWorkers: 1,
    testTimeout: 0,
    hookTimeout: 0,
  },
})
