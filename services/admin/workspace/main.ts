import { runCommand } from '../../platform/run-command.ts'
import { recordCommands } from '../../access-log/commands.ts'
import { workspaceActions } from '../workspace-command-actions.ts'
import { addExamples } from '../examples.ts'
import { createWorkspaceProgram } from '../workspace-program.ts'

const program = createWorkspaceProgram()
addExamples(program)
await runCommand(recordCommands(program, workspaceActions()))
