import { createHmac, createSecretKey } from 'node:crypto'
import { parsePhoneNumberFromString } from 'libphonenumber-js/max'
import { mixedPhones } from './inputs.ts'

/**
 * The bare loop that a job is measured against: one thread, no input or output, only parse,
 * validity, type and token of the same rows. Prints the median of its warm passes in milliseconds.
 */
function pass (inputs: readonly string[]): number {
  const key = createSecretKey(Buffer.alloc(32, 1))
  const startedAt = performance.now()
  let valid = 0
  for (const input of inputs) {
    const number = parsePhoneNumberFromString(input, 'US')
    if (number === undefined) continue
    if (number.isValid() && number.getType() !== undefined) valid++
    createHmac('sha256', key).update(number.number).digest('hex')
  }
  if (valid === 0) throw new Error('the inputs hold no valid number')
  return performance.now() - startedAt
}

const [, , rows = '100000', passes = '6'] = process.argv
const inputs = mixedPhones(Number(rows))
pass(inputs)
const warm = Array.from({ length: Number(passes) - 1 }, () => pass(inputs))
console.log(JSON.stringify({ warmMs: warm.toSorted((a, b) => a - b) }))
