import type { FastifyRequest } from 'fastify'

const WHOLE_NUMBER = /^(0|[1-9]\d{0,8})$/

/**
 * A hook that converts fields of a query to numbers before they are validated. A text that is not a
 * whole number is left alone, so that its schema rejects it.
 */
export function numbersInQuery (...names: readonly string[]) {
  return async (request: FastifyRequest): Promise<void> => {
    const query = request.query as Record<string, unknown>
    const isNumber = ([name, value]: readonly [string, unknown]) =>
      names.includes(name) && typeof value === 'string' && WHOLE_NUMBER.test(value)
    request.query = Object.fromEntries(Object.entries(query)
      .map(field => (isNumber(field) ? [field[0], Number(field[1])] : field)))
  }
}
