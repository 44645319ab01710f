"""The example library: four categories of dialogues (问答、病历记录、查询、问候) that show a model how to answer.

The functions of this package take an open connection or an `ExampleStore`, and the embedding model as an argument.
"""
