import { defineConfig } from 'vitest/config'

/** Integration tests that start a Redis of their own and need nothing else. */
const ON_REDIS = [
  'cache', 'cancel', 'compare-and-set', 'data-keys', 'jobs', 'key-of-job', 'lookup', 'money',
  'settle',
]

/** Unit tests of a folder and other tests without a stack, of which Stryker takes importers. */
export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: [
      `${process.env.MUTATE_UNIT_TESTS}/**/*.test.ts`, 'test/properties/**/*.test.ts',
      'test/accuracy/phones.test.ts',
      ...ON_REDIS.map(name => `test/integration/${name}.test.ts`),
      ...process.env.MUTATE_SIMULATION === 'true' ? ['test/mutate/simulation.ts'] : [],
    ],
    environment: 'node',
    isolate: false,
    testTimeout: 0,
    hookTimeout: 0,
  },
})
