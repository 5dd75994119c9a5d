import * as api from './api';
import type { SnapshotFile } from './model';

/// Files that somebody drops onto the page: a snapshot, or Slurm's topology and `squeue --json`, in
/// any order and also one after the other.
export class DroppedFiles {
  private topology: string | null = null;
  private jobs: string | null = null;
  private nodes: string | null = null;

  /// A snapshot with the warnings of its import, or a sentence that says what is still missing.
  async take(
    files: readonly File[],
  ): Promise<{ snapshot: SnapshotFile; warnings: string[] } | string> {
    for (const file of files) {
      const text = await file.text();
      const json = parsed(text);
      if (json?.['schema'] === 'monkeytree/snapshot/v1') {
        return { snapshot: json as unknown as SnapshotFile, warnings: [] };
      }
      if (json && Array.isArray(json['jobs'])) this.jobs = text;
      else if (json && Array.isArray(json['nodes'])) this.nodes = text;
      else if (json) return `${file.name}: expected a snapshot, or what squeue --json prints`;
      else this.topology = text;
    }
    if (this.jobs === null) return 'Got a topology; now drop what squeue --json prints.';
    if (this.topology === null)
      return 'Got the jobs; now drop the topology.conf (or topology.yaml).';
    const answer = await api.importTexts({
      topology: this.topology,
      jobs: this.jobs,
      ...(this.nodes === null ? {} : { nodes: this.nodes }),
    });
    this.topology = this.jobs = this.nodes = null;
    return {
      snapshot: JSON.parse(answer.files.snapshot) as SnapshotFile,
      warnings: answer.warnings,
    };
  }
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === 'object' && json !== null && !Array.isArray(json)
      ? (json as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
