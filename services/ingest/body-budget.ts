import { FairPool } from '../runtime/platform/limits.ts'

/** The size of 100,000 inputs of 320 characters, encoded as JSON. */
export const MAX_BODY_BYTES = 34 * 1_024 * 1_024

/**
 * The limit of most routes. A body up to this size needs no reservation, so a slow client may take
 * its time.
 */
export const SMALL_BODY_BYTES = 64 * 1_024

/** Holds a file of 100,000 phone numbers. */
const GUARANTEED_PART = 1 / 8

/**
 * The memory for bodies in flight, in bytes, which organizations share. So many large bodies at
 * once cannot exhaust it, and the bodies of one organization cannot refuse those of another.
 */
export function createBodyBudget (totalBytes: number): FairPool {
  return new FairPool({ capacity: totalBytes, guaranteed: totalBytes * GUARANTEED_PART })
}
