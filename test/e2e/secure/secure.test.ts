import { afterAll, beforeAll } from 'vitest'
import './stack.ts'
import './access.ts'
import { start, stop } from './shared.ts'

// One stack for both parts, as it takes long to start. The first part audits a fresh one.
beforeAll(start)
afterAll(stop)
