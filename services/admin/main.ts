import { runCommand } from '../runtime/platform/run-command.ts'
import { recordCommands } from './admin-command.ts'
import { createAdminProgram } from './program.ts'

await runCommand(recordCommands(createAdminProgram()))
