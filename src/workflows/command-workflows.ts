/** The commands that run as they are, each a workflow of its name. Made by `npm run docs` of the table of commands. */
export {
  runProgramCommand as 'integrations:circuit',
  runProgramCommand as 'integrations:delete',
  runProgramCommand as 'integrations:events',
  runProgramCommand as 'integrations:forget-idempotency-key',
  runProgramCommand as 'integrations:forget-mapping',
  runProgramCommand as 'integrations:idempotency-keys',
  runProgramCommand as 'integrations:list-webhooks',
  runProgramCommand as 'integrations:logs',
  runProgramCommand as 'integrations:mappings',
  runProgramCommand as 'integrations:repoint-mapping',
  runProgramCommand as 'integrations:requests',
} from './started-commands.ts'
