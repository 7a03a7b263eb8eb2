import { runCommand } from '../lib/run-command.ts'
import { createProgram } from './program.ts'

await runCommand(createProgram())
