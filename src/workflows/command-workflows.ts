/** The commands that run as they are, each a workflow of its name. Made by `npm run docs` of the table of commands. */
export {
  runProgramCommand as 'integrations:circuit',
  runProgramCommand as 'integrations:delete',
  runProgramCommand as 'integrations:dismiss-webhook',
  runProgramCommand as 'integrations:list-webhooks',
  runProgramCommand as 'integrations:oauth-status',
  runProgramCommand as 'integrations:revoke-oauth',
} from './started-commands.ts'
