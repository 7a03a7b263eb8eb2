/** Whether this is `npm test`, which leaves the longest form of some tests to `--ci`. */
export const IS_FAST = process.env['TEST_TIER'] === 'fast'
