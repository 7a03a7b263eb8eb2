import { runCommand } from '../runtime/platform/run-command.ts'
import { recordCommands } from './command-line.ts'
import { createAdminProgram } from './program.ts'

await runCommand(recordCommands(createAdminProgram()))
