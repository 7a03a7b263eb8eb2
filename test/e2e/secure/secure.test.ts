// One stack for both parts, as it takes long to start. The first part audits a fresh one.
import './stack.ts'
import './access.ts'
