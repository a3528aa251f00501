// What a submitter should know of jobs that were taken, in words. The same as in crates/api/src/note.rs.
import type { Few, Note } from '../api/jobs'

/** `job abc`, `jobs abc, def and 3 more` */
function jobsOf({ first, more = 0 }: Few): string {
  const word = first.length === 1 && more === 0 ? 'Job' : 'Jobs'
  return `${word} ${first.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export function noteText(note: Note): string {
  switch (note.note) {
    case 'rounded-up':
      return `${note.asked} GPUs by the rule ${note.rule} are rounded up to ${note.gpus}.`
    case 'secrets-dropped':
      return `${jobsOf(note.jobs)} without ${note.names.join(', ')}: such values are dropped when a job ends. To give them: nexus rerun in a shell that has them.`
    case 'secrets-not-exported':
      return `${jobsOf(note.jobs)} of the file without ${note.names.join(', ')}: an export has no such values. To give them: nexus import in a shell that has them.`
    default:
      return 'The service has a note that this page cannot read.'
  }
}
