import { runCommand } from '../platform/run-command.ts'
import { createWorkspaceProgram } from './program.ts'

await runCommand(createWorkspaceProgram())
