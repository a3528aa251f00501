// What went wrong with a request, with words to show.

/** What the service says when it cannot do something. */
export interface ProblemBody {
  problem: string
  title: string
  why?: string | null
  hint?: string | null
  field?: string
  value?: string
  want?: string
}

export class Problem extends Error {
  readonly status: number
  readonly body: ProblemBody

  constructor(status: number, body: ProblemBody) {
    super(body.title)
    this.status = status
    this.body = body
  }

  /** No answer of the service: it is away, or another program answers in its place. */
  get unreachable(): boolean {
    return this.status === 0
  }
}

export function unreachable(): Problem {
  return new Problem(0, {
    problem: 'unreachable',
    title: 'the service does not answer',
    why: 'it is stopped, or the line to it is cut',
    hint: 'nexus start',
  })
}

export async function problemOf(response: Response): Promise<Problem> {
  return new Problem(response.status, await bodyOf(response))
}

async function bodyOf(response: Response): Promise<ProblemBody> {
  try {
    const body: unknown = await response.json()
    if (typeof body === 'object' && body !== null && 'title' in body) return body as ProblemBody
  } catch {
    // A proxy's page, or half an answer: said below.
  }
  return { problem: 'answer', title: `the service answered with ${response.status}`, hint: 'nexus doctor' }
}
