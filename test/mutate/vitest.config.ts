import { defineConfig } from 'vitest/config'

/** Tests that need no stack: Stryker takes of them those that import the mutated code. */
export default defineConfig({
  test: {
    root: `${import.meta.dirname}/../..`,
    include: ['test/unit/**/*.test.ts', 'test/properties/**/*.test.ts'],
    environment: 'node',
    isolate: false,
    testTimeout: 0,
    hookTimeout: 0,
  },
})
