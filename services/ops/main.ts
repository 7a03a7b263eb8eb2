import { runCommand } from '../platform/run-command.ts'
import { createOpsProgram } from './program.ts'

await runCommand(createOpsProgram())
