export { connectAll } from './connected.ts'
export { acceptClaimed, acceptRequest } from './jobs.ts'
export { textOf } from './results.ts'
export { parseCsv } from './environment.ts'
