import { runCommand } from '../platform/run-command.ts'
import { createProgram } from './program.ts'

await runCommand(createProgram())
