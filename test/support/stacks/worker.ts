import { openStack } from './stack.ts'

// Before each test file, so that its modules may read the stack as they load.
await openStack()
